import { Button, Group, Progress, Text, VisuallyHidden } from "@mantine/core";
import { Time } from "../../components/Time";
import { countOf } from "../../lib/numbers";
import { ORDERS } from "./order";
import classes from "./SearchPage.module.css";
import { fractionOf, type SearchState } from "./searchState";

/** Progress or result of the search. Its height is constant. */
export function StatusLine({
  state,
  isAnnounced,
  onCancel,
}: {
  state: SearchState | undefined;
  /** Whether screen readers announce the result. */
  isAnnounced: boolean;
  onCancel: () => void;
}) {
  const running = state === undefined || state.status === "running";
  return (
    <div className={classes.status}>
      <Group gap="xs" justify="space-between" wrap="nowrap" mih={30}>
        <Text size="sm" component="div" c="dimmed">
          {state === undefined ? (
            "Searching…"
          ) : running ? (
            <RunningStatus state={state} />
          ) : (
            <EndedStatus state={state} />
          )}
        </Text>
        {running && (
          <Button size="compact-sm" variant="default" onClick={onCancel} disabled={state === undefined}>
            Cancel
          </Button>
        )}
      </Group>
      <ProgressBar state={state} running={running} />
      <VisuallyHidden role="status">{running || !isAnnounced ? "" : resultText(state)}</VisuallyHidden>
    </div>
  );
}

/** Progress of the search; `null` in orders other than `newest`, which do not search back in time. */
function progressOf(state: SearchState | undefined) {
  return state?.request.order === "newest" ? state.progress : null;
}

function ProgressBar({ state, running }: { state: SearchState | undefined; running: boolean }) {
  const progress = progressOf(state);
  if (!running) {
    return <div className={classes.bar} />;
  }
  const percent = progress === null ? 100 : Math.max(2, Math.round(fractionOf(progress) * 100));
  return (
    <Progress.Root className={classes.bar} size={4}>
      <Progress.Section
        value={percent}
        animated={progress === null}
        striped={progress === null}
        aria-label="Search progress"
      />
    </Progress.Root>
  );
}

/** Text for a result with further pages: "Showing the 50 longest; more available". */
function loadedText({ traces, request }: SearchState): string {
  const count = traces.length.toLocaleString("en");
  return `Showing the ${count} ${ORDERS[request.order].description}; more available`;
}

function RunningStatus({ state }: { state: SearchState }) {
  const progress = progressOf(state);
  const foundCount = (progress?.traces ?? 0) + (state.pages > 0 ? state.traces.length : 0);
  return (
    <>
      {state.pages > 0 ? "Loading more" : "Searching"}
      {progress === null ? (
        "…"
      ) : (
        <>
          : back to <Time at={progress.searched_to} digits={0} />, {Math.round(fractionOf(progress) * 100)} %,{" "}
          {countOf(foundCount, "trace")} found
        </>
      )}
    </>
  );
}

function resultText(state: SearchState): string {
  const { status, traces, cursor } = state;
  const countOfResults = cursor === null ? countOf(traces.length, "trace") : loadedText(state);
  if (status === "cancelled") {
    return `Cancelled. ${countOf(traces.length, "trace")} found until then.`;
  }
  return status === "failed"
    ? `The search failed. ${countOf(traces.length, "trace")} found until then.`
    : countOfResults;
}

function EndedStatus({ state }: { state: SearchState }) {
  const { status, traces, request, elapsedMs } = state;
  if (status === "failed" && traces.length === 0) {
    return "The search failed.";
  }
  return (
    <>
      <Text span c="var(--mantine-color-text)" fw={600}>
        {status === "cancelled" || status === "failed" ? "Incomplete: " : ""}
        {status === "done" && state.cursor !== null ? loadedText(state) : countOf(traces.length, "trace")}
      </Text>
      {" · "}
      <Time at={request.window.from} digits={0} /> – <Time at={request.window.to} digits={0} />
      {elapsedMs !== null &&
        status === "done" &&
        ` · took ${(elapsedMs / 1000).toFixed(elapsedMs < 10_000 ? 1 : 0)} s`}
    </>
  );
}
