import { Alert, Button, Group, List, Stack, Text } from "@mantine/core";
import { IconArrowsSplit2 } from "@tabler/icons-react";
import { useState } from "react";
import { ErrorNotice } from "../../components/ErrorNotice";
import { SanitizedText } from "../../components/SanitizedText";
import { Section } from "../../components/Section";
import { UnsavedChangesPrompt } from "../../components/UnsavedChangesPrompt";
import { AttributesEditor } from "./AttributesEditor";
import { nameErrors } from "./attributes";
import { MappedAccess, mappedRoles } from "./MappedAccess";
import { RolesSelect } from "./RolesSelect";
import type { useUserDraft } from "./useUserDraft";

/** Editor of a user's roles and attributes, which are saved together. */
export function UserSettings({ draft }: { draft: ReturnType<typeof useUserDraft> }) {
  const [showErrors, setShowErrors] = useState(false);
  const { displayed, conflict } = draft;
  const user = draft.user.data?.data;
  if (displayed === null) {
    return null;
  }
  return (
    <Section title="Roles and attributes" description="Takes effect on the user's next request.">
      {user !== undefined && <MappedAccess user={user} />}
      <UnsavedChangesPrompt when={draft.isTouched} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setShowErrors(true);
          if (nameErrors(displayed.rows).size === 0) {
            draft.save();
          }
        }}
      >
        <Stack gap="md">
          <RolesSelect
            value={displayed.roles}
            onChange={(roles) => draft.edit(() => ({ roles }))}
            excluded={user === undefined ? [] : mappedRoles(user)}
            description={user?.provider == null ? undefined : "In addition to those of the identity provider"}
          />
          <AttributesEditor
            rows={displayed.rows}
            onChange={(update) => draft.edit(({ rows }) => ({ rows: update(rows) }))}
            showErrors={showErrors}
          />
          {conflict !== null && <ConflictNotice {...conflict} onDiscard={draft.discard} />}
          {draft.error !== null && <ErrorNotice error={draft.error} />}
          <Group gap="xs">
            <Button type="submit" loading={draft.saving} disabled={!draft.isDirty || conflict !== null}>
              Save
            </Button>
            {draft.isTouched && (
              <Button
                variant="default"
                onClick={() => {
                  setShowErrors(false);
                  draft.discard();
                }}
              >
                Discard changes
              </Button>
            )}
            <Text size="sm" c="dimmed" role="status">
              {draft.saved ? "Saved" : ""}
            </Text>
          </Group>
        </Stack>
      </form>
    </Section>
  );
}

function ConflictNotice({
  changes,
  conflictingAttributes,
  keepMine,
  onDiscard,
}: {
  changes: readonly string[];
  conflictingAttributes: readonly string[];
  keepMine: () => void;
  onDiscard: () => void;
}) {
  return (
    <Alert
      color="yellow"
      icon={<IconArrowsSplit2 aria-hidden />}
      title="Another administrator changed this user in the meantime"
    >
      <Text size="sm">Your changes are kept and not saved yet. The other changes:</Text>
      <List size="sm" my="xs">
        {(changes.length === 0 ? ["the account was disabled or enabled"] : changes).map((change) => (
          <List.Item key={change}>
            <SanitizedText text={change} maxLength={300} />
          </List.Item>
        ))}
      </List>
      {conflictingAttributes.length > 0 && (
        <Text size="sm" mb="xs">
          You both changed <SanitizedText text={conflictingAttributes.join(", ")} />: your value would replace
          theirs.
        </Text>
      )}
      <Group gap="xs">
        <Button size="xs" onClick={keepMine}>
          Apply my changes on top
        </Button>
        <Button size="xs" variant="default" onClick={onDiscard}>
          Discard mine
        </Button>
      </Group>
    </Alert>
  );
}
