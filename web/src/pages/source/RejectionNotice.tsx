import { Alert, Anchor, List, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { ApiError } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Message } from "../../components/Message";
import { SanitizedText } from "../../components/SanitizedText";
import { countOf } from "../../lib/numbers";
import { ScrollIntoView } from "./ScrollIntoView";
import type { FieldChanges } from "./useFieldChanges";

/** Errors of a rejected change of fields, of which nothing was saved. */
export function RejectionNotice({ edit }: { edit: FieldChanges }) {
  const { error } = edit;
  return error === null || error === undefined ? null : (
    <ScrollIntoView trigger={error}>
      <RejectionReason edit={edit} error={error} />
    </ScrollIntoView>
  );
}

function RejectionReason({ edit: { rejection }, error }: { edit: FieldChanges; error: unknown }) {
  if (error instanceof ApiError && error.status === 412) {
    return (
      <Alert color="yellow" icon={<IconAlertTriangle aria-hidden />} title="Another user changed the fields">
        The list now has their changes, with yours on top; yours are not saved yet. Check them and save again.
      </Alert>
    );
  }
  const errorCount = rejection === null ? 0 : rejection.byField.size + rejection.brokenPolicies.length;
  if (rejection === null || errorCount === 0) {
    return <ErrorNotice error={error} title="The fields were not saved" />;
  }
  return (
    <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title="The fields were not saved">
      {rejection.brokenPolicies.length > 0 && (
        <>
          <Text size="sm">
            {countOf(rejection.brokenPolicies.length, "stored policy", "stored policies")} would no longer
            work. Keep the field usable in policies, or change the role first.
          </Text>
          <List size="sm" mt="xs">
            {rejection.brokenPolicies.map(({ role, policy, reason }) => (
              <List.Item key={`${role} ${policy} ${reason}`}>
                Role{" "}
                <Anchor
                  inherit
                  renderRoot={(props) => <Link to="/roles/$name" params={{ name: role }} {...props} />}
                >
                  {role}
                </Anchor>
                , policy “<SanitizedText text={policy} />
                ”: <Message text={reason} />
              </List.Item>
            ))}
          </List>
        </>
      )}
      {rejection.brokenPolicies.length === 0 && (
        <Text size="sm">
          {countOf(rejection.byField.size, "field")} cannot be marked like this; the reason is next to each.
          Nothing was saved.
        </Text>
      )}
      {rejection.otherErrors.map((text) => (
        <Text size="sm" key={text}>
          <Message text={text} />
        </Text>
      ))}
    </Alert>
  );
}
