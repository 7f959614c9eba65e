import { IconInfoCircle } from "@tabler/icons-react";
import { Visible } from "../../components/Visible";
import { formatDuration } from "../../lib/duration";
import type { Faults } from "../../trace/model";
import classes from "./trace.module.css";

const spans = (count: number, one: string, more: string) =>
  `${count.toLocaleString("en")} ${count === 1 ? `span ${one}` : `spans ${more}`}`;

/** Notices for an incomplete trace or a trace with inconsistent times. */
export function faultsAsText(faults: Faults): string[] {
  const said: string[] = [];
  if (faults.missingParents > 0) {
    said.push(
      `${spans(faults.missingParents, "has a parent that is not in this trace and is shown", "have a parent that is not in this trace and are shown")} at the top level. The parent may not have been sent or stored yet.`,
    );
  }
  if (faults.beforeParent > 0) {
    said.push(
      `${spans(faults.beforeParent, "begins", "begin")} before the parent, by up to ${formatDuration(faults.greatestSkew)}: clocks of services differ. Times are shown as they were recorded.`,
    );
  }
  if (faults.cycles > 0) {
    said.push(
      `${spans(faults.cycles, "is in a cycle of parents and is shown", "are in a cycle of parents and are shown")} at the top level.`,
    );
  }
  if (faults.duplicates > 0) {
    said.push(
      `${spans(faults.duplicates, "has the same id as an earlier span", "have the same id as an earlier span")}. Children are shown below the earlier one.`,
    );
  }
  if (faults.invalidDurations > 0) {
    said.push(
      `${spans(faults.invalidDurations, "has", "have")} a negative duration, which counts as 0: by its own clock, it ended before it started.`,
    );
  }
  if (faults.untimed > 0) {
    said.push(`${spans(faults.untimed, "has", "have")} no valid start or duration.`);
  }
  return said;
}

export function Notices({ faults, unknownSpan }: { faults: Faults; unknownSpan: string | null }) {
  const said = faultsAsText(faults);
  if (unknownSpan !== null) {
    said.unshift(`The span ${unknownSpan} of the URL is not in this trace.`);
  }
  if (said.length === 0) {
    return null;
  }
  return (
    <div role="note" aria-label="About this trace" className={classes.notice}>
      <IconInfoCircle size={18} aria-hidden />
      <ul>
        {said.map((sentence) => (
          <li key={sentence}>
            <Visible text={sentence} />
          </li>
        ))}
      </ul>
    </div>
  );
}
