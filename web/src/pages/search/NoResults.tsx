import { Anchor, Button, Group, List, Text } from "@mantine/core";
import { IconDatabaseOff, IconZoomQuestion } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { useMe } from "../../app/useMe";
import { useTimeZone } from "../../app/useTimeZone";
import { EmptyState } from "../../components/EmptyState";
import { SanitizedText } from "../../components/SanitizedText";
import { type Range, rangeLabel, widerRange } from "./range";

/** No table of traces is bound yet. */
export function NoTraceTable() {
  const me = useMe();
  return (
    <EmptyState title="There are no traces to search yet" icon={<IconDatabaseOff size={36} aria-hidden />}>
      {me.is_admin ? (
        <>
          <Text>Choose the table that holds your traces, and which of its fields can be searched.</Text>
          <Button component={Link} to="/source/setup" mt="md">
            Set up the trace source
          </Button>
        </>
      ) : (
        "No table of traces has been set up. Ask an administrator of this service to do that."
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
            Also without errors
          </Button>
        )}
        {conditionCount > 0 && (
          <Button size="xs" variant="default" onClick={onClear}>
            {conditionCount === 1 ? "Clear the condition" : "Clear the conditions"}
          </Button>
        )}
      </Group>
      <Text size="sm">
        This means that no trace matches <b>that you may see</b>: traces show only where a policy of{" "}
        {me.preview === null ? "one of your roles" : "one of the previewed roles"} allows it.
      </Text>
      {roles.length === 0 ? (
        <Text size="sm" mt={4}>
          {me.preview === null
            ? "You have no role yet, so that you see none. Ask an administrator for one."
            : "The preview has no role, so that it shows none."}
        </Text>
      ) : (
        <List size="sm" mt={4} listStyleType="none">
          <List.Item>
            Your roles:{" "}
            {roles.map((role, index) => (
              <span key={role}>
                {index > 0 && ", "}
                <b>
                  <SanitizedText text={role} />
                </b>
              </span>
            ))}
          </List.Item>
        </List>
      )}
      {roles.length > 0 && traceRoles.length === 0 && (
        <Text size="sm" mt={4}>
          The admin role grants administration; it grants no access to traces unless it has a policy.
        </Text>
      )}
      {me.is_admin && me.preview === null && (
        <Text size="sm" mt={4}>
          <Anchor component={Link} to="/roles" inherit>
            See what the roles allow
          </Anchor>
        </Text>
      )}
    </EmptyState>
  );
}
