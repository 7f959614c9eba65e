import { Button } from "@mantine/core";
import { useState } from "react";
import { Visible } from "../../components/Visible";
import { hunks, lineDifferences } from "../../lib/differences";
import { countOf } from "../roles/listing";
import classes from "./history.module.css";

/** Number of rows shown initially. */
const ROWS = 200;

const SIGNS = { same: " ", added: "+", removed: "−" } as const;
const NAMES = { added: "added: ", removed: "removed: " } as const;

/** Differences between two texts by line, with a few unchanged lines around each change. */
export function LineDifferences({ before, after, label }: { before: string; after: string; label: string }) {
  const [all, setAll] = useState(false);
  const rows = hunks(lineDifferences(before, after));
  const shown = all ? rows : rows.slice(0, ROWS);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard */}
      <section className={classes.lines} aria-label={label} tabIndex={0}>
        {shown.map((row, place) =>
          "line" in row ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows of a comparison have no other identity
            <div key={place} className={classes.line} data-kind={row.line.kind}>
              <span className={classes.sign} aria-hidden>
                {SIGNS[row.line.kind]}
              </span>
              {row.line.kind !== "same" && <span className={classes.spoken}>{NAMES[row.line.kind]}</span>}
              <Visible text={row.line.text} most={2_000} />
            </div>
          ) : (
            // biome-ignore lint/suspicious/noArrayIndexKey: as above
            <div key={place} className={classes.skipped}>
              {countOf(row.skipped, "unchanged line", "unchanged lines")}
            </div>
          ),
        )}
      </section>
      {shown.length < rows.length && (
        <Button size="compact-xs" variant="subtle" mt={4} onClick={() => setAll(true)}>
          Show all {rows.length.toLocaleString("en")} lines
        </Button>
      )}
    </>
  );
}
