import { ActionIcon, Button, Group, Paper, Stack, Text, Textarea, TextInput, Tooltip } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconCopy, IconTrash } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import { type Api, ApiError } from "../../api/client";
import { PolicyEditor } from "../../editor/PolicyEditor";
import { refusals } from "../../editor/remarks";
import { plainMessage } from "../../lib/messages";
import { visible } from "../../lib/visible";
import type { DraftPolicy } from "./draft";

const NONE: readonly Api["Diagnostic"][] = [];

/** Errors of a rejected save for one member of a policy. */
function messageAt(problem: Api["ProblemDetails"] | undefined, pointer: string): string | null {
  const found = (problem?.errors ?? []).filter((member) => member.pointer === pointer);
  return found.length === 0 ? null : visible(found.map(({ detail }) => plainMessage(detail)).join(" "));
}

/** A policy: its title, description, expression, and position in the list. */
export function PolicyCard({
  policy,
  index,
  count,
  refused,
  warnings = NONE,
  onChange,
  onMove,
  onDuplicate,
  onRemove,
}: {
  policy: DraftPolicy;
  index: number;
  count: number;
  /** Errors of the last save. */
  refused: Refusal | null;
  warnings: readonly Api["Diagnostic"][] | undefined;
  onChange: (part: Partial<DraftPolicy>) => void;
  onMove: (to: number) => void;
  onDuplicate: () => void;
  onRemove: () => void;
}) {
  const [asked, setDescribed] = useState(false);
  const described = asked || policy.description !== "";
  const number = index + 1;
  const called = policy.title === "" ? `policy ${number}` : `policy ${number}, ${visible(policy.title)}`;
  return (
    <Paper component="section" withBorder p="sm" aria-label={`Policy ${number}`}>
      <Stack gap="sm">
        <Group justify="space-between" gap="xs" wrap="nowrap">
          <Text size="sm" c="var(--tw-quiet)">
            Policy {number} of {count}
          </Text>
          <Group gap={2} wrap="nowrap">
            <CardAction
              hint="Move up"
              label={`Move ${called} up`}
              disabled={index === 0}
              onClick={() => onMove(index - 1)}
            >
              <IconArrowUp size={16} aria-hidden />
            </CardAction>
            <CardAction
              hint="Move down"
              label={`Move ${called} down`}
              disabled={number === count}
              onClick={() => onMove(index + 1)}
            >
              <IconArrowDown size={16} aria-hidden />
            </CardAction>
            <CardAction hint="Duplicate" label={`Duplicate ${called}`} onClick={onDuplicate}>
              <IconCopy size={16} aria-hidden />
            </CardAction>
            <CardAction hint="Remove" label={`Remove ${called}`} onClick={onRemove}>
              <IconTrash size={16} aria-hidden />
            </CardAction>
          </Group>
        </Group>
        <TextInput
          label="Title"
          required
          withAsterisk={false}
          placeholder="Purpose, such as: Own team"
          maxLength={200}
          autoComplete="off"
          value={policy.title}
          error={refused?.at(index, "title")}
          onChange={(event) => onChange({ title: event.currentTarget.value })}
        />
        <PolicyEditor
          label="Expression"
          value={policy.expression}
          onChange={(expression) => onChange({ expression })}
          diagnostics={refused?.expressions[index] ?? NONE}
          warnings={warnings}
        />
        {described ? (
          <Textarea
            label="Description"
            description="Optional; explains the policy to other administrators"
            autosize
            minRows={1}
            maxRows={8}
            autoFocus={policy.description === ""}
            value={policy.description}
            error={refused?.at(index, "description")}
            onChange={(event) => onChange({ description: event.currentTarget.value })}
          />
        ) : (
          <Button
            size="compact-xs"
            variant="subtle"
            style={{ alignSelf: "start" }}
            onClick={() => setDescribed(true)}
          >
            Add a description
          </Button>
        )}
      </Stack>
    </Paper>
  );
}

/** Errors of a rejected save by policy. The lists keep their identity as long as the error does. */
export type Refusal = {
  readonly expressions: readonly (readonly Api["Diagnostic"][])[];
  readonly at: (index: number, member: "title" | "description") => string | null;
};

export function refusalOf(error: unknown, count: number): Refusal | null {
  if (!(error instanceof ApiError)) {
    return null;
  }
  return {
    expressions: Array.from({ length: count }, (_, index) =>
      refusals(error.problem, `/policies/${index}/expression`),
    ),
    at: (index, member) => messageAt(error.problem, `/policies/${index}/${member}`),
  };
}

function CardAction({
  hint,
  label,
  disabled = false,
  onClick,
  children,
}: {
  hint: string;
  label: string;
  disabled?: boolean;
  onClick: () => void;
  children: ReactNode;
}) {
  return (
    <Tooltip label={hint}>
      <ActionIcon
        variant="subtle"
        color="gray"
        aria-label={label}
        disabled={disabled}
        style={disabled ? { background: "none" } : {}}
        onClick={onClick}
      >
        {children}
      </ActionIcon>
    </Tooltip>
  );
}
