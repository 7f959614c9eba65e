import { Button, Stack } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { type DraftPolicy, duplicatePolicy, movePolicy, newPolicy } from "./draft";
import { PolicyCard, type SaveErrors } from "./PolicyCard";
import type { Warnings } from "./useRoleDraft";

/** The policies of a role in an editor. */
export function PolicyList({
  draft,
  onChange,
  saveErrors,
  warnings,
}: {
  draft: readonly DraftPolicy[];
  onChange: (draft: readonly DraftPolicy[]) => void;
  saveErrors: SaveErrors | null;
  warnings?: Warnings;
}) {
  return (
    <Stack gap="sm">
      {draft.map((policy, index) => (
        <PolicyCard
          key={policy.key}
          policy={policy}
          index={index}
          count={draft.length}
          saveErrors={saveErrors}
          warnings={warnings?.get(policy.key)}
          onChange={(part) =>
            onChange(draft.map((other) => (other.key === policy.key ? { ...other, ...part } : other)))
          }
          onMove={(to) => onChange(movePolicy(draft, index, to))}
          onDuplicate={() => onChange(duplicatePolicy(draft, index))}
          onRemove={() => onChange(draft.filter((other) => other.key !== policy.key))}
        />
      ))}
      <Button
        variant="default"
        style={{ alignSelf: "start" }}
        leftSection={<IconPlus size={16} aria-hidden />}
        onClick={() => onChange([...draft, newPolicy()])}
      >
        Add a policy
      </Button>
    </Stack>
  );
}
