import { StateBadge } from "../../components/StateBadge";
import { isOutcome, type Outcome } from "./url";

export const OUTCOME_LABELS: Record<Outcome, { label: string; color: string; about: string }> = {
  success: { label: "Success", color: "green", about: "Done" },
  denied: { label: "Denied", color: "red", about: "Refused to this caller" },
  failed: { label: "Failed", color: "orange", about: "Not done, for a fault in the request or in a system" },
  not_found: {
    label: "Not found",
    color: "grape",
    about: "The trace is absent or not authorised; nobody looked which",
  },
  aborted: { label: "Aborted", color: "yellow", about: "The client went away before the end" },
  unknown: { label: "Not ended", color: "gray", about: "It runs still, or never came to an end" },
};

/** The outcome of an action as a word with a colour. */
export function OutcomeBadge({ outcome }: { outcome: string }) {
  if (!isOutcome(outcome)) {
    return <StateBadge color="gray">{outcome}</StateBadge>;
  }
  const { label, color, about } = OUTCOME_LABELS[outcome];
  return (
    <StateBadge color={color} title={about} strong={outcome === "denied" || outcome === "failed"}>
      {label}
    </StateBadge>
  );
}
