import { Button, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { Copy } from "../../components/Copy";
import { Visible } from "../../components/Visible";
import { writeJson } from "../../lib/json";
import { pieces } from "../../lib/visible";
import type { Entry } from "../../trace/details";
import classes from "./trace.module.css";

/** Number of characters shown initially. */
const FIRST = 400;
/** Number of further characters shown per click: as plain text, and when each invisible character is a separate element. */
const PLAIN = 1_000_000;
const MARKED = 20_000;
/** Number of attributes in the document initially. */
const ENTRIES = 200;

export function asText(value: unknown): string {
  return typeof value === "string" ? value : writeJson(value, 2);
}

/** A value of any length: its beginning, and the rest on request. */
export function LongText({
  text,
  first = FIRST,
  mono = false,
}: {
  text: string;
  first?: number;
  mono?: boolean;
}) {
  const [most, setMost] = useState(first);
  const more = text.length - most;
  const step = () => {
    const marked = pieces(text.slice(0, PLAIN)).length > 1_000;
    setMost(Math.max(most, 0) + (marked ? MARKED : PLAIN));
  };
  return (
    <span className={mono ? classes.mono : classes.value}>
      <Visible text={text} most={most} />
      {more > 0 && (
        <>
          {" "}
          <Button size="compact-xs" variant="light" onClick={step}>
            {more <= MARKED ? "Show all" : "Show more"} ({text.length.toLocaleString("en")} characters)
          </Button>
        </>
      )}
    </span>
  );
}

/** Adds unique ids to entries: the same key may occur several times, for example in maps of different types. */
export function identified(entries: readonly Entry[]): (Entry & { readonly id: string })[] {
  const times = new Map<string, number>();
  return entries.map(({ key, value }) => {
    const before = times.get(key) ?? 0;
    times.set(key, before + 1);
    return { id: `${before} ${key}`, key, value };
  });
}

/** Keys and values, with a filter if there are many. */
export function Entries({ entries, what }: { entries: readonly Entry[]; what: string }) {
  const [filter, setFilter] = useState("");
  const [most, setMost] = useState(ENTRIES);
  if (entries.length === 0) {
    return (
      <Text size="sm" c="var(--tw-quiet)">
        There are no {what}.
      </Text>
    );
  }
  const wanted = filter.trim().toLowerCase();
  const shown =
    wanted === ""
      ? identified(entries)
      : identified(entries).filter(
          ({ key, value }) =>
            key.toLowerCase().includes(wanted) || asText(value).toLowerCase().includes(wanted),
        );
  return (
    <>
      {entries.length > 4 && (
        <TextInput
          size="xs"
          mb="xs"
          aria-label={`Filter ${what}`}
          placeholder={`Filter ${entries.length} ${what}`}
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
      <dl className={classes.entries} aria-label={what}>
        {shown.slice(0, most).map(({ id, key, value }) => {
          const text = asText(value);
          return (
            <div key={id}>
              <dt>
                <Visible text={key} most={200} />
              </dt>
              <dd>
                <LongText text={text} />
                <Copy value={text} what={`value of ${key.slice(0, 60)}`} />
              </dd>
            </div>
          );
        })}
      </dl>
      {shown.length === 0 && (
        <Text size="sm" c="var(--tw-quiet)">
          Nothing matches the filter.
        </Text>
      )}
      {shown.length > most && (
        <Button size="xs" variant="default" onClick={() => setMost(most + ENTRIES)}>
          Show more of {shown.length.toLocaleString("en")}
        </Button>
      )}
    </>
  );
}
