import { Button, Stack } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { type DraftPolicy, duplicated, moved, newPolicy } from "./draft";
import { PolicyCard, type Refusal } from "./PolicyCard";
import type { Warnings } from "./useRoleDraft";

/** The policies of a role in an editor. */
export function PolicyList({
  draft,
  onChange,
  refused,
  warnings,
  more,
}: {
  draft: readonly DraftPolicy[];
  onChange: (draft: readonly DraftPolicy[]) => void;
  refused: Refusal | null;
  warnings?: Warnings;
  /** Additional elements next to the button that adds a policy. */
  more?: ReactNode;
}) {
  return (
    <Stack gap="sm">
      {draft.map((policy, index) => (
        <PolicyCard
          key={policy.key}
          policy={policy}
          index={index}
          count={draft.length}
          refused={refused}
          warnings={warnings?.get(policy.key)}
          onChange={(part) =>
            onChange(draft.map((one) => (one.key === policy.key ? { ...one, ...part } : one)))
          }
          onMove={(to) => onChange(moved(draft, index, to))}
          onDuplicate={() => onChange(duplicated(draft, index))}
          onRemove={() => onChange(draft.filter((one) => one.key !== policy.key))}
        />
      ))}
      <div>
        <Button
          variant="default"
          leftSection={<IconPlus size={16} aria-hidden />}
          onClick={() => onChange([...draft, newPolicy()])}
        >
          Add a policy
        </Button>
        {more}
      </div>
    </Stack>
  );
}
