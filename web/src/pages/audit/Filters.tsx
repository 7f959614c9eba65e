import { Button, CloseButton, Group, Select, TextInput } from "@mantine/core";
import { type FormEvent, useEffect, useState } from "react";
import { useTimeZone } from "../../app/useTimeZone";
import { useDebouncedText } from "../../lib/useDebouncedText";
import { inputText, parseRange, type RangeErrors } from "../search/range";
import { actionOptions } from "./actions";
import { OUTCOME_LABELS } from "./OutcomeBadge";
import { type AuditUrl, isOutcome, OUTCOMES } from "./url";

export type FilterChange = { [Name in keyof AuditUrl]: AuditUrl[Name] | undefined };

const PERIODS = [
  { value: "", label: "All time" },
  { value: "1h", label: "Last hour" },
  { value: "24h", label: "Last 24 hours" },
  { value: "7d", label: "Last 7 days" },
  { value: "30d", label: "Last 30 days" },
  { value: "90d", label: "Last 90 days" },
];
const CUSTOM_RANGE = "between";

/** Filters of the log, whose state is in the URL. */
export function Filters({
  filters,
  onChange,
}: {
  filters: AuditUrl;
  onChange: (change: FilterChange) => void;
}) {
  const [customSelected, setCustomSelected] = useState(false);
  const isPreset = filters.to === undefined && PERIODS.some(({ value }) => value === (filters.from ?? ""));
  const isCustom = customSelected || !isPreset;
  return (
    <Group component="search" gap="xs" mb="xs" align="flex-start">
      <Select
        aria-label="Time range"
        w={{ base: "100%", xs: 170 }}
        allowDeselect={false}
        data={[...PERIODS, { value: CUSTOM_RANGE, label: "Custom range" }]}
        value={isCustom ? CUSTOM_RANGE : (filters.from ?? "")}
        onChange={(value) => {
          setCustomSelected(value === CUSTOM_RANGE);
          if (value !== CUSTOM_RANGE && value !== null) {
            onChange({ from: value === "" ? undefined : value, to: undefined, request: undefined });
          }
        }}
      />
      {isCustom && (
        <CustomRange
          key={`${filters.from} ${filters.to}`}
          filters={filters}
          onChange={(change) => {
            setCustomSelected(false);
            onChange(change);
          }}
        />
      )}
      <TextFilter
        label="Actor: whole name or id"
        clearLabel="Any actor"
        value={filters.actor}
        onChange={(actor) => onChange({ actor })}
      />
      <TextFilter
        label="Target: trace id, role, user…"
        clearLabel="Any target"
        value={filters.target}
        onChange={(target) => onChange({ target })}
      />
      {filters.key !== undefined && (
        <TextFilter
          label="API key or session: id"
          clearLabel="Any API key or session"
          value={filters.key}
          onChange={(key) => onChange({ key })}
        />
      )}
      <Select
        aria-label="Action"
        placeholder="Any action"
        w={{ base: "100%", xs: 240 }}
        clearable
        searchable
        data={actionOptions(filters.action)}
        value={filters.action ?? null}
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
        value={filters.outcome ?? null}
        onChange={(outcome) => onChange({ outcome: isOutcome(outcome) ? outcome : undefined })}
        clearButtonProps={{ "aria-label": "Any outcome" }}
      />
    </Group>
  );
}

/** A text, which is applied when typing pauses. */
function TextFilter({
  label,
  clearLabel,
  value,
  onChange,
}: {
  label: string;
  clearLabel: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  const { text, change, commit } = useDebouncedText(value, onChange, 500);
  return (
    <TextInput
      aria-label={label}
      placeholder={label}
      data-search-field
      autoComplete="off"
      spellCheck={false}
      w={{ base: "100%", xs: 225 }}
      value={text}
      onChange={(event) => change(event.currentTarget.value)}
      onKeyDown={(event) => event.key === "Enter" && commit(text)}
      rightSection={
        text === "" ? null : <CloseButton size="sm" aria-label={clearLabel} onClick={() => commit("")} />
      }
    />
  );
}

function CustomRange({ filters, onChange }: { filters: AuditUrl; onChange: (change: FilterChange) => void }) {
  const [zone] = useTimeZone();
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const [errors, setErrors] = useState<RangeErrors>({});
  useEffect(() => {
    setFrom(filters.from === undefined ? "" : inputText(filters.from, zone));
    setTo(filters.to === undefined ? "" : inputText(filters.to, zone));
  }, [filters.from, filters.to, zone]);
  const handleSubmit = (event: FormEvent) => {
    event.preventDefault();
    const range = parseRange(from.trim() === "" ? "1970-01-01" : from, to, zone, new Date());
    if ("errors" in range) {
      setErrors(range.errors);
    } else if (range.kind === "absolute") {
      setErrors({});
      onChange({
        from: from.trim() === "" ? undefined : range.from,
        to: to.trim() === "" ? undefined : range.to,
        request: undefined,
      });
    }
  };
  return (
    <form onSubmit={handleSubmit}>
      <Group gap="xs" align="flex-start">
        <TextInput
          aria-label="From"
          placeholder="From: 2026-11-21 09:30"
          w={{ base: "100%", xs: 190 }}
          value={from}
          onChange={(event) => setFrom(event.currentTarget.value)}
          error={errors.from}
        />
        <TextInput
          aria-label="To"
          placeholder="To: now"
          w={{ base: "100%", xs: 190 }}
          value={to}
          onChange={(event) => setTo(event.currentTarget.value)}
          error={errors.to}
        />
        <Button type="submit" variant="default">
          Show
        </Button>
      </Group>
    </form>
  );
}
