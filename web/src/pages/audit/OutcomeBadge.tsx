import { StateBadge } from "../../components/StateBadge";
import { isOutcome, type Outcome } from "./url";

export const OUTCOME_LABELS: Record<Outcome, { label: string; color: string; description: string }> = {
  success: { label: "Success", color: "green", description: "Completed" },
  denied: { label: "Denied", color: "red", description: "Denied to this caller" },
  failed: {
    label: "Failed",
    color: "orange",
    description: "Not completed because of an error in the request or in a system",
  },
  not_found: {
    label: "Not found",
    color: "grape",
    description:
      "The trace does not exist, or the caller may not see it; the service does not distinguish these",
  },
  aborted: { label: "Aborted", color: "yellow", description: "The client disconnected before the end" },
  unknown: { label: "Not completed", color: "gray", description: "Still running, or never completed" },
};

/** The outcome of an action as a word with a colour. */
export function OutcomeBadge({ outcome }: { outcome: string }) {
  if (!isOutcome(outcome)) {
    return <StateBadge color="gray">{outcome}</StateBadge>;
  }
  const { label, color, description } = OUTCOME_LABELS[outcome];
  return (
    <StateBadge color={color} title={description} strong={outcome === "denied" || outcome === "failed"}>
      {label}
    </StateBadge>
  );
}
