import { Anchor, Button, Group, Text } from "@mantine/core";
import { IconDatabaseOff, IconZoomQuestion } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useMe } from "../../app/useMe";
import { useTimeZone } from "../../app/useTimeZone";
import { EmptyState } from "../../components/EmptyState";
import { type Range, rangeLabel, widerRange } from "./range";

/** No table of traces is bound yet. */
export function NoTraceTable() {
  const me = useMe();
  return (
    <EmptyState title="The trace source is not set up yet" icon={<IconDatabaseOff size={36} aria-hidden />}>
      {me.is_admin ? (
        <>
          <Text>Choose the table that holds your traces, and which of its fields can be searched.</Text>
          <Button component={Link} to="/source/setup" mt="md">
            Set up the trace source
          </Button>
        </>
      ) : (
        "Ask an administrator to set it up."
      )}
    </EmptyState>
  );
}

/** No results, which may also mean that the user may see none, with actions that could change that. */
export function NoResults({
  range,
  conditionCount,
  errorsOnly,
  onRange,
  onClear,
  onAllSpans,
}: {
  range: Range;
  conditionCount: number;
  errorsOnly: boolean;
  onRange: (range: Range) => void;
  onClear: () => void;
  onAllSpans: () => void;
}) {
  const me = useMe();
  const [zone] = useTimeZone();
  const { roles } = me.preview ?? me;
  const traceRoles = roles.filter((role) => role !== "admin");
  const widened = widerRange(range);
  return (
    <EmptyState
      title={`Nothing found in ${rangeLabel(range, zone).replace(/^last/, "the last")}`}
      icon={<IconZoomQuestion size={36} aria-hidden />}
    >
      <Group justify="center" gap="xs" my="sm">
        {widened !== null && (
          <Button size="xs" onClick={() => onRange(widened)}>
            Search {widened.kind === "last" ? `the ${rangeLabel(widened, zone)}` : rangeLabel(widened, zone)}
          </Button>
        )}
        {errorsOnly && (
          <Button size="xs" variant="default" onClick={onAllSpans}>
            Include traces without errors
          </Button>
        )}
        {conditionCount > 0 && (
          <Button size="xs" variant="default" onClick={onClear}>
            {conditionCount === 1 ? "Clear the condition" : "Clear the conditions"}
          </Button>
        )}
      </Group>
      <Text size="sm">
        No trace <b>that you may see</b> matches. You see a trace only if a policy of{" "}
        {me.preview === null ? "one of your roles" : "one of the previewed roles"} grants access to it.
      </Text>
      {roles.length === 0 ? (
        <Text size="sm" mt={4}>
          {me.preview === null
            ? "You have no role yet, and see no traces. Ask an administrator for a role."
            : "The preview has no role, and shows no traces."}
        </Text>
      ) : (
        <Text size="sm" mt={4}>
          Your roles: <b>{roles.join(", ")}</b>
        </Text>
      )}
      {roles.length > 0 && traceRoles.length === 0 && (
        <Text size="sm" mt={4}>
          The admin role grants no access to traces unless it has a policy.
        </Text>
      )}
      {me.is_admin && me.preview === null && (
        <Text size="sm" mt={4}>
          <Anchor component={Link} to="/roles" inherit>
            Show the roles
          </Anchor>
        </Text>
      )}
    </EmptyState>
  );
}
