import { Badge, Paper, Stack, Text } from "@mantine/core";
import { SanitizedText } from "../../components/SanitizedText";
import { diffWords } from "../../lib/diff";
import { type DraftPolicy, diffDrafts, type PolicyDifference } from "./draft";
import classes from "./roles.module.css";

const COLOURS = { added: "green", removed: "red", changed: "blue" } as const;

/** The policies that differ between two versions of a role. */
export function RoleDiff({
  before,
  after,
}: {
  before: readonly DraftPolicy[];
  after: readonly DraftPolicy[];
}) {
  const { policies, reordered } = diffDrafts(before, after);
  return (
    <Stack gap="sm">
      {policies.map((difference) => (
        <PolicyDiff key={`${difference.kind} ${difference.policy.key}`} difference={difference} />
      ))}
      {reordered && <Text size="sm">The order changed, which does not affect access.</Text>}
      {policies.length === 0 && !reordered && <Text size="sm">No differences.</Text>}
    </Stack>
  );
}

/** A policy before and after. */
export function PolicyDiff({ difference }: { difference: PolicyDifference }) {
  const { kind, policy } = difference;
  const empty = { title: "", description: "", expression: "" };
  const oldPolicy = kind === "changed" ? difference.before : kind === "removed" ? policy : empty;
  const newPolicy = kind === "removed" ? empty : policy;
  return (
    <Paper component="section" withBorder p="sm" aria-label={`Policy ${kind}`}>
      <Badge variant="light" color={COLOURS[kind]} c="var(--mantine-color-text)" mb={6}>
        {kind}
      </Badge>
      <Text size="sm" fw={500} mb={4}>
        <TextDiff before={oldPolicy.title} after={newPolicy.title} />
      </Text>
      <pre className={classes.expression}>
        <TextDiff before={oldPolicy.expression} after={newPolicy.expression} />
      </pre>
      {(oldPolicy.description !== "" || newPolicy.description !== "") && (
        <Text size="sm" mt={4} c="dimmed" style={{ whiteSpace: "pre-wrap" }}>
          <TextDiff before={oldPolicy.description} after={newPolicy.description} />
        </Text>
      )}
    </Paper>
  );
}

/** A changed text. If both versions have text, added and removed parts are marked. */
function TextDiff({ before, after }: { before: string; after: string }) {
  if (before === "" || after === "") {
    return <SanitizedText text={before + after} />;
  }
  return diffWords(before, after).map(({ kind, text }, index) => {
    const key = `${index} ${kind}`;
    if (kind === "same") {
      return <SanitizedText key={key} text={text} />;
    }
    const Tag = kind === "added" ? "ins" : "del";
    return (
      <Tag key={key} className={classes[kind]}>
        <SanitizedText text={text} />
      </Tag>
    );
  });
}
