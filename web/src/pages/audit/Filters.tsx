import { Button, CloseButton, Group, Select, Text, TextInput } from "@mantine/core";
import { type FormEvent, useEffect, useState } from "react";
import { useZone } from "../../app/settings";
import { useTypedText } from "../../lib/useTypedText";
import { typedForm, typedRange } from "../search/range";
import { actionChoices } from "./actions";
import { OUTCOME_LABELS } from "./OutcomeBadge";
import { type AuditUrl, isOutcome, OUTCOMES } from "./url";

export type Change = { [Name in keyof AuditUrl]: AuditUrl[Name] | undefined };

const PERIODS = [
  { value: "", label: "All time" },
  { value: "1h", label: "Last hour" },
  { value: "24h", label: "Last 24 hours" },
  { value: "7d", label: "Last 7 days" },
  { value: "30d", label: "Last 30 days" },
  { value: "90d", label: "Last 90 days" },
];
const BETWEEN = "between";

/** Filters of the log, whose state is in the URL. */
export function Filters({ asked, onChange }: { asked: AuditUrl; onChange: (change: Change) => void }) {
  const [typing, setTyping] = useState(false);
  const preset = asked.to === undefined && PERIODS.some(({ value }) => value === (asked.from ?? ""));
  const between = typing || !preset;
  return (
    <Group component="search" gap="xs" mb="xs" align="flex-start">
      <Select
        aria-label="Time range"
        w={{ base: "100%", xs: 170 }}
        allowDeselect={false}
        data={[...PERIODS, { value: BETWEEN, label: "Custom range" }]}
        value={between ? BETWEEN : (asked.from ?? "")}
        onChange={(value) => {
          setTyping(value === BETWEEN);
          if (value !== BETWEEN && value !== null) {
            onChange({ from: value === "" ? undefined : value, to: undefined, request: undefined });
          }
        }}
      />
      {between && (
        <Between
          key={`${asked.from} ${asked.to}`}
          asked={asked}
          onChange={(change) => {
            setTyping(false);
            onChange(change);
          }}
        />
      )}
      <Actor actor={asked.actor} onChange={(actor) => onChange({ actor })} />
      <Select
        aria-label="Action"
        placeholder="Any action"
        w={{ base: "100%", xs: 240 }}
        clearable
        searchable
        data={actionChoices(asked.action)}
        value={asked.action ?? null}
        onChange={(action) => onChange({ action: action ?? undefined })}
        clearButtonProps={{ "aria-label": "Any action" }}
        comboboxProps={{ width: 340, position: "bottom-start" }}
        maxDropdownHeight={360}
      />
      <Select
        aria-label="Outcome"
        placeholder="Any outcome"
        w={{ base: "100%", xs: 150 }}
        clearable
        data={OUTCOMES.map((value) => ({ value, label: OUTCOME_LABELS[value].label }))}
        value={asked.outcome ?? null}
        onChange={(outcome) => onChange({ outcome: isOutcome(outcome) ? outcome : undefined })}
        clearButtonProps={{ "aria-label": "Any outcome" }}
      />
    </Group>
  );
}

/** A name or id, which is applied when typing pauses. */
function Actor({
  actor,
  onChange,
}: {
  actor: string | undefined;
  onChange: (actor: string | undefined) => void;
}) {
  const { text, type, now } = useTypedText(actor, onChange, 500);
  return (
    <TextInput
      aria-label="Actor, by whole name or id"
      placeholder="Actor: whole name or id"
      data-slash
      autoComplete="off"
      spellCheck={false}
      w={{ base: "100%", xs: 210 }}
      value={text}
      onChange={(event) => type(event.currentTarget.value)}
      onKeyDown={(event) => event.key === "Enter" && now(text)}
      rightSection={
        text === "" ? null : <CloseButton size="sm" aria-label="Any actor" onClick={() => now("")} />
      }
    />
  );
}

function Between({ asked, onChange }: { asked: AuditUrl; onChange: (change: Change) => void }) {
  const [zone] = useZone();
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setFrom(asked.from === undefined ? "" : typedForm(asked.from, zone));
    setTo(asked.to === undefined ? "" : typedForm(asked.to, zone));
  }, [asked.from, asked.to, zone]);
  const take = (event: FormEvent) => {
    event.preventDefault();
    const range = typedRange(from.trim() === "" ? "1970-01-01" : from, to, zone, new Date());
    if ("problem" in range) {
      setProblem(range.problem);
    } else if (range.kind === "absolute") {
      setProblem(null);
      onChange({
        from: from.trim() === "" ? undefined : range.from,
        to: to.trim() === "" ? undefined : range.to,
        request: undefined,
      });
    }
  };
  return (
    <form onSubmit={take}>
      <Group gap="xs" align="flex-start">
        <TextInput
          aria-label="From"
          placeholder="From: 2026-11-21 09:30"
          w={{ base: "100%", xs: 190 }}
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
        />
        <TextInput
          aria-label="To"
          placeholder="To: now"
          w={{ base: "100%", xs: 190 }}
          value={to}
          onChange={(event) => setTo(event.currentTarget.value)}
        />
        <Button type="submit" variant="default">
          Show
        </Button>
      </Group>
      {problem !== null && (
        <Text size="xs" c="var(--tw-error)" role="alert" mt={4}>
          {problem}
        </Text>
      )}
    </form>
  );
}
