import { Button, VisuallyHidden } from "@mantine/core";
import { useState } from "react";
import { SanitizedText } from "../../components/SanitizedText";
import { diffLines, hunks } from "../../lib/diff";
import { countOf } from "../../lib/numbers";
import classes from "./history.module.css";

/** Number of rows shown initially. */
const INITIAL_ROWS = 200;

const SIGNS = { same: " ", added: "+", removed: "−" } as const;
const SPOKEN_SIGNS = { added: "added: ", removed: "removed: " } as const;

/** Differences between two texts by line, with a few unchanged lines around each change. */
export function LineDiff({ before, after, label }: { before: string; after: string; label: string }) {
  const [showAll, setShowAll] = useState(false);
  const rows = hunks(diffLines(before, after));
  const shownRows = showAll ? rows : rows.slice(0, INITIAL_ROWS);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also by keyboard */}
      <section className={classes.lines} aria-label={label} tabIndex={0}>
        {shownRows.map((row, index) =>
          "line" in row ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows of a comparison have no other identity
            <div key={index} className={classes.line} data-kind={row.line.kind}>
              <span className={classes.sign} aria-hidden>
                {SIGNS[row.line.kind]}
              </span>
              {row.line.kind !== "same" && <VisuallyHidden>{SPOKEN_SIGNS[row.line.kind]}</VisuallyHidden>}
              <SanitizedText text={row.line.text} maxLength={2_000} />
            </div>
          ) : (
            // biome-ignore lint/suspicious/noArrayIndexKey: as above
            <div key={index} className={classes.skipped}>
              {countOf(row.skipped, "unchanged line", "unchanged lines")}
            </div>
          ),
        )}
      </section>
      {shownRows.length < rows.length && (
        <Button size="compact-xs" variant="subtle" mt={4} onClick={() => setShowAll(true)}>
          Show all {rows.length.toLocaleString("en")} lines
        </Button>
      )}
    </>
  );
}
