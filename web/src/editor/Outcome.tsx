import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconCircleMinus } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { Api } from "../api/client";
import { Message } from "../components/Message";
import { Visible } from "../components/Visible";
import { plainMessage } from "../lib/messages";
import { visible } from "../lib/visible";
import classes from "./Decided.module.css";
import { segments } from "./place";

/** The outcome of a policy for a span, as an icon and a word. */
export function Outcome({ outcome, children }: { outcome: Api["PolicyOutcome"]; children: ReactNode }) {
  const Icon =
    outcome === "true" ? IconCircleCheck : outcome === "error" ? IconAlertTriangle : IconCircleMinus;
  return (
    <span className={classes.outcome} data-outcome={outcome}>
      <Icon size={16} aria-hidden />
      {children}
    </span>
  );
}

/** An expression with its decisive parts marked. */
export function DecidedExpression({
  expression,
  parts,
}: {
  expression: string;
  parts: readonly Api["Decision"][];
}) {
  return (
    <pre className={classes.expression}>
      {segments(expression, parts).map(({ text, marks }, index) => {
        const inner = marks.at(-1);
        const key = `${index} ${text}`;
        return inner === undefined ? (
          <Visible key={key} text={text} />
        ) : (
          <mark
            key={key}
            className={classes.mark}
            data-outcome={inner.outcome}
            title={inner.detail === undefined ? inner.outcome : visible(plainMessage(inner.detail))}
          >
            <Visible text={text} />
          </mark>
        );
      })}
    </pre>
  );
}

/** Descriptions of the outcome and of the decisive parts, without duplicates. */
export function DecidedDetails({
  outcome,
  detail,
  parts,
}: {
  outcome: Api["PolicyOutcome"];
  detail?: string | undefined;
  parts: readonly Api["Decision"][];
}) {
  const [all, setAll] = useState(false);
  const details = [
    ...new Map(
      [{ outcome, detail }, ...parts].flatMap((one) =>
        one.detail === undefined ? [] : [[one.detail, one.outcome] as const],
      ),
    ),
  ];
  const shown = all ? details : details.slice(0, 4);
  return (
    <Stack gap={2} mt={4}>
      {shown.map(([said, of]) => (
        <Group key={said} gap={6} wrap="nowrap" align="flex-start">
          <Badge size="xs" variant="default" tt="none" style={{ flex: "none" }} mt={3}>
            {of}
          </Badge>
          <Text size="xs" style={{ overflowWrap: "anywhere" }}>
            <Message text={said} most={all ? 10_000 : 400} />
          </Text>
        </Group>
      ))}
      {!all && (shown.length < details.length || details.some(([said]) => said.length > 400)) && (
        <Button
          size="compact-xs"
          variant="subtle"
          onClick={() => setAll(true)}
          style={{ alignSelf: "start" }}
        >
          Show all
        </Button>
      )}
    </Stack>
  );
}
