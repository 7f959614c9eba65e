import { List, Text } from "@mantine/core";
import { hasStatus } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageLink } from "../../components/links";
import { Message } from "../../components/Message";
import { Notice } from "../../components/Notice";
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
  if (hasStatus(error, 412)) {
    return (
      <Notice kind="warning" title="Another user changed the fields">
        Their changes are loaded. Yours are kept and not saved yet: check them and save again.
      </Notice>
    );
  }
  const errorCount = rejection === null ? 0 : rejection.byField.size + rejection.brokenPolicies.length;
  if (rejection === null || errorCount === 0) {
    return <ErrorNotice error={error} title="The fields were not saved" />;
  }
  return (
    <Notice kind="error" title="The fields were not saved">
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
                <PageLink to="/roles/$name" params={{ name: role }} inherit>
                  {role}
                </PageLink>
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
    </Notice>
  );
}
