import { Button, Group, Paper, Stack, Textarea, TextInput } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconCopy, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { type Api, ApiError } from "../../api/client";
import { IconButton } from "../../components/IconButton";
import { Secondary } from "../../components/Secondary";
import { diagnosticsAt } from "../../editor/diagnostics";
import { PolicyEditor } from "../../editor/PolicyEditor";
import { plainMessage } from "../../lib/messages";
import { sanitize } from "../../lib/sanitize";
import type { DraftPolicy } from "./draft";

const NO_DIAGNOSTICS: readonly Api["Diagnostic"][] = [];

const DISABLED = { disabled: true, style: { background: "none" } };

/** Errors of a rejected save for one member of a policy. */
function messageAt(problem: Api["ProblemDetails"] | undefined, pointer: string): string | null {
  const errors = (problem?.errors ?? []).filter((member) => member.pointer === pointer);
  return errors.length === 0 ? null : errors.map(({ detail }) => plainMessage(detail)).join(" ");
}

/** A policy: its title, description, expression, and position in the list. */
export function PolicyCard({
  policy,
  index,
  count,
  saveErrors,
  warnings = NO_DIAGNOSTICS,
  onChange,
  onMove,
  onDuplicate,
  onRemove,
}: {
  policy: DraftPolicy;
  index: number;
  count: number;
  /** Errors of the last save. */
  saveErrors: SaveErrors | null;
  warnings: readonly Api["Diagnostic"][] | undefined;
  onChange: (changes: Partial<DraftPolicy>) => void;
  onMove: (newIndex: number) => void;
  onDuplicate: () => void;
  onRemove: () => void;
}) {
  const [descriptionOpened, setDescriptionOpened] = useState(false);
  const showDescription = descriptionOpened || policy.description !== "";
  const number = index + 1;
  const accessibleName =
    policy.title === "" ? `policy ${number}` : `policy ${number}, ${sanitize(policy.title)}`;
  return (
    <Paper component="section" withBorder p="sm" aria-label={`Policy ${number}`}>
      <Stack gap="sm">
        <Group justify="space-between" gap="xs" wrap="nowrap">
          <Secondary size="sm">
            Policy {number} of {count}
          </Secondary>
          <Group gap={2} wrap="nowrap">
            <IconButton
              tooltip="Move up"
              label={`Move ${accessibleName} up`}
              {...(index === 0 ? DISABLED : {})}
              onClick={() => onMove(index - 1)}
            >
              <IconArrowUp size={16} aria-hidden />
            </IconButton>
            <IconButton
              tooltip="Move down"
              label={`Move ${accessibleName} down`}
              {...(number === count ? DISABLED : {})}
              onClick={() => onMove(index + 1)}
            >
              <IconArrowDown size={16} aria-hidden />
            </IconButton>
            <IconButton tooltip="Duplicate" label={`Duplicate ${accessibleName}`} onClick={onDuplicate}>
              <IconCopy size={16} aria-hidden />
            </IconButton>
            <IconButton tooltip="Remove" label={`Remove ${accessibleName}`} onClick={onRemove}>
              <IconTrash size={16} aria-hidden />
            </IconButton>
          </Group>
        </Group>
        <TextInput
          label="Title"
          required
          placeholder="Purpose, such as: Own team"
          maxLength={200}
          autoComplete="off"
          value={policy.title}
          error={saveErrors?.messageOf(index, "title")}
          onChange={(event) => onChange({ title: event.currentTarget.value })}
        />
        <PolicyEditor
          label="Expression"
          value={policy.expression}
          onChange={(expression) => onChange({ expression })}
          diagnostics={saveErrors?.expressions[index] ?? NO_DIAGNOSTICS}
          warnings={warnings}
        />
        {showDescription ? (
          <Textarea
            label="Description"
            description="Optional; explains the policy to other administrators"
            autosize
            minRows={1}
            maxRows={8}
            autoFocus={policy.description === ""}
            value={policy.description}
            error={saveErrors?.messageOf(index, "description")}
            onChange={(event) => onChange({ description: event.currentTarget.value })}
          />
        ) : (
          <Button
            size="compact-xs"
            variant="subtle"
            style={{ alignSelf: "start" }}
            onClick={() => setDescriptionOpened(true)}
          >
            Add a description
          </Button>
        )}
      </Stack>
    </Paper>
  );
}

/** Errors of a rejected save by policy. The lists keep their identity as long as the error does. */
export type SaveErrors = {
  readonly expressions: readonly (readonly Api["Diagnostic"][])[];
  readonly messageOf: (index: number, member: "title" | "description") => string | null;
};

export function saveErrorsOf(error: unknown, count: number): SaveErrors | null {
  if (!(error instanceof ApiError)) {
    return null;
  }
  return {
    expressions: Array.from({ length: count }, (_, index) =>
      diagnosticsAt(error.problem, `/policies/${index}/expression`),
    ),
    messageOf: (index, member) => messageAt(error.problem, `/policies/${index}/${member}`),
  };
}
