import { Alert, Anchor, List, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { ApiError } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Message } from "../../components/Message";
import { Visible } from "../../components/Visible";
import { IntoView } from "./IntoView";
import { counted } from "./numbers";
import type { FieldChanges } from "./useFieldChanges";

/** Errors of a rejected change of fields, of which nothing was saved. */
export function Refused({ edit }: { edit: FieldChanges }) {
  const { error } = edit;
  return error === null || error === undefined ? null : (
    <IntoView of={error}>
      <Reason edit={edit} error={error} />
    </IntoView>
  );
}

function Reason({ edit: { refusal }, error }: { edit: FieldChanges; error: unknown }) {
  if (error instanceof ApiError && error.status === 412) {
    return (
      <Alert
        color="yellow"
        variant="light"
        role="alert"
        icon={<IconAlertTriangle aria-hidden />}
        title="Another user changed the fields"
      >
        The list now has their changes, with yours on top; yours are not saved yet. Check them and save again.
      </Alert>
    );
  }
  const told = refusal === null ? 0 : refusal.byField.size + refusal.broken.length;
  if (refusal === null || told === 0) {
    return <ErrorNotice error={error} title="The fields were not saved" />;
  }
  return (
    <Alert
      color="red"
      variant="light"
      role="alert"
      icon={<IconAlertTriangle aria-hidden />}
      title="The fields were not saved"
    >
      {refusal.broken.length > 0 && (
        <>
          <Text size="sm">
            {counted(refusal.broken.length, "stored policy", "stored policies")} would no longer work. Keep
            the field usable in policies, or change the role first.
          </Text>
          <List size="sm" mt="xs">
            {refusal.broken.map(({ role, policy, reason }) => (
              <List.Item key={`${role} ${policy} ${reason}`}>
                Role{" "}
                <Anchor
                  inherit
                  renderRoot={(props) => <Link to="/roles/$name" params={{ name: role }} {...props} />}
                >
                  {role}
                </Anchor>
                , policy “<Visible text={policy} />
                ”: <Message text={reason} />
              </List.Item>
            ))}
          </List>
        </>
      )}
      {refusal.broken.length === 0 && (
        <Text size="sm">
          {counted(refusal.byField.size, "field")} cannot be marked like this; the reason is next to each.
          Nothing was saved.
        </Text>
      )}
      {refusal.other.map((text) => (
        <Text size="sm" key={text}>
          <Message text={text} />
        </Text>
      ))}
    </Alert>
  );
}
