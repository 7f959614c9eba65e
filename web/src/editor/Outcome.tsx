import { Badge, Button, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconCircleCheck, IconCircleMinus } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { Api } from "../api/client";
import { Message } from "../components/Message";
import { SanitizedText } from "../components/SanitizedText";
import { plainMessage } from "../lib/messages";
import classes from "./Outcome.module.css";
import { segments } from "./position";

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
export function HighlightedExpression({
  expression,
  decisions,
}: {
  expression: string;
  decisions: readonly Api["Decision"][];
}) {
  return (
    <pre className={classes.expression}>
      {segments(expression, decisions).map(({ text, marks }, index) => {
        const inner = marks.at(-1);
        const key = `${index} ${text}`;
        return inner === undefined ? (
          <SanitizedText key={key} text={text} />
        ) : (
          <mark
            key={key}
            className={classes.mark}
            data-outcome={inner.outcome}
            title={inner.detail === undefined ? inner.outcome : plainMessage(inner.detail)}
          >
            <SanitizedText text={text} />
          </mark>
        );
      })}
    </pre>
  );
}

/** Descriptions of the outcome and of the decisive parts, without duplicates. */
export function OutcomeDetails({
  outcome,
  detail,
  decisions,
}: {
  outcome: Api["PolicyOutcome"];
  detail?: string | undefined;
  decisions: readonly Api["Decision"][];
}) {
  const [showAll, setShowAll] = useState(false);
  const details = [
    ...new Map(
      [{ outcome, detail }, ...decisions].flatMap((item) =>
        item.detail === undefined ? [] : [[item.detail, item.outcome] as const],
      ),
    ),
  ];
  const shownDetails = showAll ? details : details.slice(0, 4);
  return (
    <Stack gap={2} mt={4}>
      {shownDetails.map(([text, textOutcome]) => (
        <Group key={text} gap={6} wrap="nowrap" align="flex-start">
          <Badge size="xs" variant="default" style={{ flex: "none" }} mt={3}>
            {textOutcome}
          </Badge>
          <Text size="xs" style={{ overflowWrap: "anywhere" }}>
            <Message text={text} maxLength={showAll ? 10_000 : 400} />
          </Text>
        </Group>
      ))}
      {!showAll && (shownDetails.length < details.length || details.some(([text]) => text.length > 400)) && (
        <Button
          size="compact-xs"
          variant="subtle"
          onClick={() => setShowAll(true)}
          style={{ alignSelf: "start" }}
        >
          Show all
        </Button>
      )}
    </Stack>
  );
}
