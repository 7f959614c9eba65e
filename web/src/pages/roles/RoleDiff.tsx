import { Badge, Paper, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { Visible } from "../../components/Visible";
import { textDifferences } from "../../lib/differences";
import { type Difference, type DraftPolicy, differences } from "./draft";
import classes from "./roles.module.css";

const COLOURS = { added: "green", removed: "red", changed: "blue" } as const;

/** The policies that differ between two versions of a role. */
export function Differences({
  before,
  after,
}: {
  before: readonly DraftPolicy[];
  after: readonly DraftPolicy[];
}) {
  const { policies, reordered } = differences(before, after);
  return (
    <Stack gap="sm">
      {policies.map((one) => (
        <OnePolicy key={`${one.kind} ${one.policy.key}`} difference={one} />
      ))}
      {reordered && <Text size="sm">The order changed, which does not affect access.</Text>}
      {policies.length === 0 && !reordered && <Text size="sm">No differences.</Text>}
    </Stack>
  );
}

/** A policy before and after. */
export function OnePolicy({ difference, title }: { difference: Difference; title?: ReactNode }) {
  const { kind, policy } = difference;
  const none = { title: "", description: "", expression: "" };
  const old = kind === "changed" ? difference.before : kind === "removed" ? policy : none;
  const now = kind === "removed" ? none : policy;
  return (
    <Paper component="section" withBorder p="sm" aria-label={`Policy ${kind}`}>
      <Badge variant="light" color={COLOURS[kind]} c="var(--mantine-color-text)" tt="none" mb={6}>
        {kind}
      </Badge>{" "}
      {title}
      <Text size="sm" fw={500} mb={4}>
        <Changed before={old.title} after={now.title} />
      </Text>
      <pre className={classes.expression}>
        <Changed before={old.expression} after={now.expression} />
      </pre>
      {(old.description !== "" || now.description !== "") && (
        <Text size="sm" mt={4} c="var(--tw-quiet)" style={{ whiteSpace: "pre-wrap" }}>
          <Changed before={old.description} after={now.description} />
        </Text>
      )}
    </Paper>
  );
}

/** A changed text. If both versions have text, added and removed parts are marked. */
function Changed({ before, after }: { before: string; after: string }) {
  if (before === "" || after === "") {
    return <Visible text={before + after} />;
  }
  return textDifferences(before, after).map(({ kind, text }, place) => {
    const key = `${place} ${kind}`;
    if (kind === "same") {
      return <Visible key={key} text={text} />;
    }
    const Change = kind === "added" ? "ins" : "del";
    return (
      <Change key={key} className={classes[kind]}>
        <Visible text={text} />
      </Change>
    );
  });
}
