import { Alert, Button, Group, List, Stack, Text } from "@mantine/core";
import { IconArrowsSplit2 } from "@tabler/icons-react";
import { useState } from "react";
import { ErrorNotice } from "../../components/ErrorNotice";
import { Section } from "../../components/Section";
import { UnsavedChanges } from "../../components/UnsavedChanges";
import { Visible } from "../../components/Visible";
import { AttributesEditor } from "./AttributesEditor";
import { problemsOf } from "./attributes";
import { RolesSelect } from "./RolesSelect";
import type { useUserDraft } from "./useUserDraft";

/** Editor of a user's roles and attributes, which are saved together. */
export function UserSettings({ draft }: { draft: ReturnType<typeof useUserDraft> }) {
  const [strict, setStrict] = useState(false);
  const { shown, conflict } = draft;
  if (shown === null) {
    return null;
  }
  return (
    <Section title="Roles and attributes" about="Takes effect on the user's next request.">
      <UnsavedChanges when={draft.touched} />
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setStrict(true);
          if (problemsOf(shown.rows).size === 0) {
            draft.save();
          }
        }}
      >
        <Stack gap="md">
          <RolesSelect value={shown.roles} onChange={(roles) => draft.edit(() => ({ roles }))} />
          <AttributesEditor
            rows={shown.rows}
            onChange={(update) => draft.edit(({ rows }) => ({ rows: update(rows) }))}
            strict={strict}
          />
          {conflict !== null && <Conflict {...conflict} onDiscard={draft.discard} />}
          {draft.error !== null && <ErrorNotice error={draft.error} />}
          <Group gap="xs">
            <Button type="submit" loading={draft.saving} disabled={!draft.dirty || conflict !== null}>
              Save
            </Button>
            {draft.touched && (
              <Button
                variant="default"
                onClick={() => {
                  setStrict(false);
                  draft.discard();
                }}
              >
                Discard changes
              </Button>
            )}
            <Text size="sm" c="var(--tw-quiet)" role="status">
              {draft.saved ? "Saved" : ""}
            </Text>
          </Group>
        </Stack>
      </form>
    </Section>
  );
}

function Conflict({
  changes,
  both,
  keep,
  onDiscard,
}: {
  changes: readonly string[];
  both: readonly string[];
  keep: () => void;
  onDiscard: () => void;
}) {
  return (
    <Alert
      role="alert"
      color="yellow"
      variant="light"
      icon={<IconArrowsSplit2 aria-hidden />}
      title="Another administrator changed this user in the meantime"
    >
      <Text size="sm">Your changes are kept, and not saved yet. Saved since you started:</Text>
      <List size="sm" my="xs">
        {(changes.length === 0 ? ["the account was disabled or enabled"] : changes).map((change) => (
          <List.Item key={change}>
            <Visible text={change} most={300} />
          </List.Item>
        ))}
      </List>
      {both.length > 0 && (
        <Text size="sm" mb="xs">
          You both changed <Visible text={both.join(", ")} />: yours would replace theirs.
        </Text>
      )}
      <Group gap="xs">
        <Button size="xs" onClick={keep}>
          Apply my changes on top
        </Button>
        <Button size="xs" variant="default" onClick={onDiscard}>
          Discard mine
        </Button>
      </Group>
    </Alert>
  );
}
