import { Button, Group, Progress, Text, VisuallyHidden } from "@mantine/core";
import { Time } from "../../components/Time";
import classes from "./SearchPage.module.css";
import { fractionOf, type SearchState } from "./state";

/** Progress or result of the search. Its height is constant. */
export function StatusLine({ state, onCancel }: { state: SearchState | undefined; onCancel: () => void }) {
  const running = state === undefined || state.status === "running";
  return (
    <div className={classes.status}>
      <Group gap="xs" justify="space-between" wrap="nowrap" mih={30}>
        <Text size="sm" component="div" c="var(--tw-quiet)">
          {state === undefined ? "Searching…" : running ? <Running state={state} /> : <Ended state={state} />}
        </Text>
        {running && (
          <Button size="compact-sm" variant="default" onClick={onCancel} disabled={state === undefined}>
            Cancel
          </Button>
        )}
      </Group>
      <Bar state={state} running={running} />
      <VisuallyHidden role="status">{running ? "" : outcome(state)}</VisuallyHidden>
    </div>
  );
}

function Bar({ state, running }: { state: SearchState | undefined; running: boolean }) {
  const progress = state?.progress ?? null;
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
        aria-label="How much has been searched"
      />
    </Progress.Root>
  );
}

const count = (traces: number) => `${traces.toLocaleString("en")} ${traces === 1 ? "trace" : "traces"}`;

const newest = (traces: number) => `Showing the newest ${traces.toLocaleString("en")}; more available`;

function Running({ state }: { state: SearchState }) {
  const { progress } = state;
  const found = (progress?.traces ?? 0) + (state.pages > 0 ? state.traces.length : 0);
  return (
    <>
      {state.pages > 0 ? "Loading more" : "Searching"}
      {progress === null ? (
        "…"
      ) : (
        <>
          : looked back to <Time at={progress.searched_to} digits={0} />,{" "}
          {Math.round(fractionOf(progress) * 100)} %, {count(found)} found
        </>
      )}
    </>
  );
}

function outcome({ status, traces, cursor }: SearchState): string {
  const found = cursor === null ? count(traces.length) : newest(traces.length);
  if (status === "cancelled") {
    return `Cancelled. ${count(traces.length)} came before that.`;
  }
  return status === "failed" ? `The search failed. ${count(traces.length)} came before that.` : found;
}

function Ended({ state }: { state: SearchState }) {
  const { status, traces, question, took } = state;
  if (status === "failed" && traces.length === 0) {
    return "The search failed.";
  }
  return (
    <>
      <Text span c="var(--mantine-color-text)" fw={600}>
        {status === "cancelled" || status === "failed" ? "Incomplete: " : ""}
        {status === "done" && state.cursor !== null ? newest(traces.length) : count(traces.length)}
      </Text>
      {" · "}
      <Time at={question.window.from} digits={0} /> – <Time at={question.window.to} digits={0} />
      {took !== null && status === "done" && ` · took ${(took / 1000).toFixed(took < 10_000 ? 1 : 0)} s`}
    </>
  );
}
