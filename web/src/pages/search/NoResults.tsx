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
  const isPreview = me.preview !== null;
  const nothingFound = `Nothing found in ${rangeLabel(range, zone).replace(/^last/, "the last")}`;
  const title =
    roles.length === 0
      ? isPreview
        ? "The previewed access has no role, so no traces are visible"
        : "You have no role yet, so you cannot see any traces"
      : traceRoles.length === 0
        ? "The admin role grants access to traces only if it has a policy"
        : nothingFound;
  return (
    <EmptyState title={title} icon={<IconZoomQuestion size={36} aria-hidden />}>
      {roles.length === 0 ? (
        <Text size="sm">
          {isPreview ? "Choose roles for the preview." : "Ask an administrator for a role."}
        </Text>
      ) : (
        <>
          {traceRoles.length === 0 && <Text size="sm">{nothingFound}.</Text>}
          <Text size="sm">
            No trace <b>that you may see</b> matches. You see a trace only if a policy of{" "}
            {isPreview ? "one of the previewed roles" : "one of your roles"} grants access to it. Roles:{" "}
            <b>{roles.join(", ")}</b>
          </Text>
        </>
      )}
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
      {me.is_admin && !isPreview && (
        <Text size="sm" mt={4}>
          <Anchor component={Link} to="/roles" inherit>
            Show the roles
          </Anchor>
        </Text>
      )}
    </EmptyState>
  );
}
