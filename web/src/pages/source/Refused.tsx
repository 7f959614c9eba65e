import { Alert, Anchor, List, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { Link } from "@tanstack/react-router";
import { ApiError } from "../../api/client";
import { ErrorNotice } from "../../components/ErrorNotice";
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
        title="Somebody else changed the fields"
      >
        What is shown now is theirs, with your changes on top; nothing of yours is saved yet. Look through it
        and save again.
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
            {counted(refusal.broken.length, "stored policy", "stored policies")} would no longer work. Leave
            the field marked, or change the role first.
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
                ”: <Visible text={reason} />
              </List.Item>
            ))}
          </List>
        </>
      )}
      {refusal.broken.length === 0 && (
        <Text size="sm">
          {counted(refusal.byField.size, "field")} will not do as marked; the reason stands at each. Nothing
          was saved.
        </Text>
      )}
      {refusal.other.map((text) => (
        <Text size="sm" key={text}>
          <Visible text={text} />
        </Text>
      ))}
    </Alert>
  );
}
