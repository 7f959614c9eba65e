import { Anchor, Button, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { CopyButton } from "../../components/CopyButton";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { parseJson, writeJson } from "../../lib/json";
import { splitHiddenCharacters } from "../../lib/sanitize";
import type { Entry } from "../../trace/details";
import classes from "./trace.module.css";

/** Number of characters shown initially. */
const INITIAL_LENGTH = 400;
/** Number of further characters shown per click: as plain text, and when each invisible character is a separate element. */
const STEP_LENGTH = 1_000_000;
const HIDDEN_STEP_LENGTH = 20_000;
/** Number of attributes in the document initially. */
const INITIAL_ENTRIES = 200;

export function valueText(value: unknown): string {
  return typeof value === "string" ? value : writeJson(value, 2);
}

/** The text to show for a value: compact JSON in a string is indented, if every digit and key stays as it was. */
export function displayText(text: string): string {
  if (text.length > 20_000 || !/^[{[][\s\S]*[}\]]$/.test(text)) {
    return text;
  }
  try {
    const value = parseJson(text);
    return writeJson(value, 0) === text ? writeJson(value, 2) : text;
  } catch {
    return text;
  }
}

/** Whether a value is a link to a web page. Text from spans never becomes a link of another kind. */
export const isWebLink = (text: string): boolean =>
  /^https?:\/\/[^\s<>"']{1,380}$/i.test(text) && URL.canParse(text);

/** A value of any length: its beginning, and the rest on request. */
export function LongText({
  text,
  initialLength = INITIAL_LENGTH,
  monospace = false,
}: {
  text: string;
  initialLength?: number;
  monospace?: boolean;
}) {
  const [length, setLength] = useState(initialLength);
  const remaining = text.length - length;
  const showMore = () => {
    const hasManyHidden = splitHiddenCharacters(text.slice(0, STEP_LENGTH)).length > 1_000;
    setLength(Math.max(length, 0) + (hasManyHidden ? HIDDEN_STEP_LENGTH : STEP_LENGTH));
  };
  return (
    <span className={monospace ? classes.monospace : classes.value}>
      <SanitizedText text={text} maxLength={length} />
      {remaining > 0 && (
        <>
          {" "}
          <Button size="compact-xs" variant="light" onClick={showMore}>
            {remaining <= HIDDEN_STEP_LENGTH ? "Show all" : "Show more"} ({text.length.toLocaleString("en")}{" "}
            characters)
          </Button>
        </>
      )}
    </span>
  );
}

/** Adds unique ids to entries: the same key may occur several times, for example in maps of different types. */
export function withIds(entries: readonly Entry[]): (Entry & { readonly id: string })[] {
  const counts = new Map<string, number>();
  return entries.map(({ key, value }) => {
    const count = counts.get(key) ?? 0;
    counts.set(key, count + 1);
    return { id: `${count} ${key}`, key, value };
  });
}

export function NoItems({ label }: { label: string }) {
  return <Secondary size="sm">There are no {label}.</Secondary>;
}

/** Keys and values, with a filter if there are many. */
export function Entries({
  entries,
  label,
  actions,
}: {
  entries: readonly Entry[];
  label: string;
  /** Further actions on an entry. */
  actions?: (key: string, text: string) => ReactNode;
}) {
  const [filter, setFilter] = useState("");
  const [limit, setLimit] = useState(INITIAL_ENTRIES);
  if (entries.length === 0) {
    return <NoItems label={label} />;
  }
  const wanted = filter.trim().toLowerCase();
  const shownEntries =
    wanted === ""
      ? withIds(entries)
      : withIds(entries).filter(
          ({ key, value }) =>
            key.toLowerCase().includes(wanted) || valueText(value).toLowerCase().includes(wanted),
        );
  return (
    <>
      {entries.length > 4 && (
        <TextInput
          size="xs"
          mb="xs"
          aria-label={`Filter ${label}`}
          placeholder={`Filter ${entries.length} ${label}`}
          value={filter}
          onChange={(event) => setFilter(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape" && filter !== "") {
              event.stopPropagation();
              setFilter("");
            }
          }}
        />
      )}
      <dl className={classes.entries} aria-label={label}>
        {shownEntries.slice(0, limit).map(({ id, key, value }) => {
          const text = valueText(value);
          return (
            <div key={id}>
              <dt>
                <SanitizedText text={key} maxLength={200} />
              </dt>
              <dd>
                {isWebLink(text) ? (
                  <Anchor
                    href={text}
                    target="_blank"
                    rel="noopener noreferrer"
                    className={classes.value}
                    size="sm"
                  >
                    <SanitizedText text={text} maxLength={INITIAL_LENGTH} />
                  </Anchor>
                ) : (
                  <LongText text={displayText(text)} />
                )}
                <CopyButton value={text} name={`value of ${key.slice(0, 60)}`} />
                {actions?.(key, text)}
              </dd>
            </div>
          );
        })}
      </dl>
      {shownEntries.length === 0 && <Secondary size="sm">Nothing matches the filter.</Secondary>}
      {shownEntries.length > limit && (
        <Button size="xs" variant="default" onClick={() => setLimit(limit + INITIAL_ENTRIES)}>
          Show more of {shownEntries.length.toLocaleString("en")}
        </Button>
      )}
    </>
  );
}
