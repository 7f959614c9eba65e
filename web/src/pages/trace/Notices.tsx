import { IconInfoCircle } from "@tabler/icons-react";
import lists from "../../components/list.module.css";
import { SanitizedText } from "../../components/SanitizedText";
import { formatDuration } from "../../lib/duration";
import { countOf } from "../../lib/numbers";
import type { Faults } from "../../trace/model";
import classes from "./trace.module.css";

/** Notices for an incomplete trace or a trace with inconsistent times. */
export function faultTexts(faults: Faults): string[] {
  const texts: string[] = [];
  if (faults.missingParents > 0) {
    texts.push(
      `${countOf(faults.missingParents, "span has a parent that is not in this trace and is shown", "spans have a parent that is not in this trace and are shown")} at the top level. The parent may not have been sent or stored yet.`,
    );
  }
  if (faults.beforeParent > 0) {
    texts.push(
      `${countOf(faults.beforeParent, "span begins", "spans begin")} before the parent, by up to ${formatDuration(faults.maxSkew)}: clocks of services differ. Times are shown as they were recorded.`,
    );
  }
  if (faults.cycles > 0) {
    texts.push(
      `${countOf(faults.cycles, "span is in a cycle of parents and is shown", "spans are in a cycle of parents and are shown")} at the top level.`,
    );
  }
  if (faults.duplicates > 0) {
    texts.push(
      `${countOf(faults.duplicates, "span has the same id as an earlier span", "spans have the same id as an earlier span")}. Children are shown below the earlier one.`,
    );
  }
  if (faults.invalidDurations > 0) {
    texts.push(
      `${countOf(faults.invalidDurations, "span has", "spans have")} a negative duration, which counts as 0: by its own clock, it ended before it started.`,
    );
  }
  if (faults.invalidTimes > 0) {
    texts.push(`${countOf(faults.invalidTimes, "span has", "spans have")} no valid start or duration.`);
  }
  return texts;
}

export function Notices({ faults, unknownSpan }: { faults: Faults; unknownSpan: string | null }) {
  const texts = faultTexts(faults);
  if (unknownSpan !== null) {
    texts.unshift(`The span ${unknownSpan} of the URL is not in this trace.`);
  }
  if (texts.length === 0) {
    return null;
  }
  return (
    <div role="note" aria-label="About this trace" className={classes.notice}>
      <IconInfoCircle size={18} aria-hidden />
      <ul className={lists.plain}>
        {texts.map((sentence) => (
          <li key={sentence}>
            <SanitizedText text={sentence} />
          </li>
        ))}
      </ul>
    </div>
  );
}
