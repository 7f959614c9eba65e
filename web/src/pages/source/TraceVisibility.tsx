import { Alert, Anchor, Button, Group, Loader, Text } from "@mantine/core";
import { IconCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Notice } from "../../components/Notice";
import { countOf } from "../../lib/numbers";
import { countVisibleTraces } from "./queries";

const DAY_HOURS = 24;
const MONTH_HOURS = 30 * DAY_HOURS;

/** Whether the user sees traces now, with actions if not. */
export function TraceVisibility({ role, ownRoles }: { role: string | null; ownRoles: string[] }) {
  const { data, error, isFetching, refetch } = useQuery({
    queryKey: ["traces-seen", role, ownRoles],
    queryFn: async () => {
      const day = await countVisibleTraces(DAY_HOURS);
      return day.traces > 0
        ? { ...day, hours: DAY_HOURS }
        : { ...(await countVisibleTraces(MONTH_HOURS)), hours: MONTH_HOURS };
    },
    // Without a role, the user sees no traces.
    enabled: role !== null || ownRoles.length > 0,
    staleTime: 0,
    retry: false,
  });
  if (role === null && ownRoles.length === 0) {
    return null;
  }
  if (error !== null) {
    return (
      <ErrorNotice
        error={error}
        title="Your access to traces could not be checked"
        onRetry={() => void refetch()}
      />
    );
  }
  if (data === undefined) {
    return (
      <Group gap="xs" role="status">
        <Loader size="xs" />
        <Text size="sm">Checking whether you can see traces</Text>
      </Group>
    );
  }
  const roles = role === null ? ownRoles : [role];
  if (data.traces > 0 && data.hours === DAY_HOURS) {
    return (
      <Alert
        role="status"
        color="green"
        icon={<IconCheck aria-hidden />}
        title={`You can see traces now: ${data.more ? "more than " : ""}${data.traces} in the last 24 hours`}
      >
        <Text size="sm">
          {role === null
            ? `You have ${countOf(ownRoles.length, "role")} besides admin: ${ownRoles.join(", ")}. Another one is optional.`
            : `You have the role ${role}.`}{" "}
          <Anchor component={Link} to="/search" inherit c="inherit" underline="always">
            Search them
          </Anchor>
        </Text>
      </Alert>
    );
  }
  return (
    <Notice
      kind="warning"
      role="status"
      title={
        data.traces > 0
          ? `None in the last 24 hours, but ${data.more ? "more than " : ""}${data.traces} in the last 30 days`
          : "You cannot see any trace of the last 30 days"
      }
    >
      <Text size="sm">
        {data.traces > 0
          ? "The role works. Check that new spans still arrive in the table."
          : `You have the role${roles.length === 1 ? "" : "s"} ${roles.join(", ")}, and no trace of the last 30 days satisfies a policy. Check that the value is exactly as in the spans, and that spans arrive in the table. To find out, try “Every trace”.`}
      </Text>
      <Button mt="sm" size="xs" variant="default" loading={isFetching} onClick={() => void refetch()}>
        Refresh
      </Button>
    </Notice>
  );
}
