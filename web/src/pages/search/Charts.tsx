import { Box, Button, Group, Skeleton } from "@mantine/core";
import type { Api } from "../../api/client";
import { errorText } from "../../components/errorText";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { formatDuration } from "../../lib/duration";
import { countOf } from "../../lib/numbers";
import { HISTOGRAM_HEIGHT, Histogram } from "./Histogram";
import { ScatterChart, ScatterLegend } from "./ScatterChart";
import type { SearchState } from "./searchState";
import type { useStats } from "./useStats";

type Stats = ReturnType<typeof useStats>;

/** The charts above the results: all traces of the range over time, and the loaded ones by duration. */
export function Charts({
  stats,
  isOutdated,
  displayed,
  highlightedId,
  onZoom,
}: {
  stats: Stats;
  /** Whether the numbers are shown as those of the previous search. */
  isOutdated: boolean;
  displayed: SearchState;
  /** The trace that is selected in the table. */
  highlightedId: string | null;
  onZoom: (from: Date, to: Date) => void;
}) {
  const { traces, request, status, cursor } = displayed;
  const withDurations = hasDurations(displayed);
  return (
    <>
      <StatsChart stats={stats} isOutdated={isOutdated} displayed={displayed} onZoom={onZoom} />
      {withDurations && (
        <ScatterChart
          traces={traces}
          from={request.window.from}
          to={request.window.to}
          showsWholeWindow={request.order !== "newest" || (status === "done" && cursor === null)}
          highlightedId={highlightedId}
          onZoom={onZoom}
        />
      )}
      <Group justify="space-between" gap="xs" mb={4}>
        {withDurations && <ScatterLegend loadedCount={cursor === null ? null : traces.length} />}
        {stats.data !== undefined && (
          <StatsSummary stats={stats.data} hasUnloaded={hasUnloadedTraces(displayed)} />
        )}
      </Group>
    </>
  );
}

/** The histogram of the whole range, or why there is none. Its height is constant. */
function StatsChart({
  stats,
  isOutdated,
  displayed,
  onZoom,
}: {
  stats: Stats;
  isOutdated: boolean;
  displayed: SearchState;
  onZoom: (from: Date, to: Date) => void;
}) {
  if (stats.isError) {
    return (
      <Group gap="xs" mb={4} mih={HISTOGRAM_HEIGHT}>
        <Secondary size="sm">
          The numbers over the whole range are missing: <SanitizedText text={errorText(stats.error)} />
        </Secondary>
        <Button size="compact-sm" variant="default" onClick={() => void stats.refetch()}>
          Try again
        </Button>
      </Group>
    );
  }
  if (stats.data === undefined) {
    return <Skeleton height={HISTOGRAM_HEIGHT} mb={4} />;
  }
  return (
    <Box mb={4} aria-busy={stats.isPlaceholderData} style={{ opacity: isOutdated ? 0.5 : 1 }}>
      <Histogram
        stats={stats.data}
        loadedFrom={hasUnloadedTraces(displayed) ? (displayed.traces.at(-1)?.start ?? null) : null}
        onZoom={onZoom}
      />
    </Box>
  );
}

/** Numbers over the whole range, loaded or not. */
function StatsSummary({ stats, hasUnloaded }: { stats: Api["TraceStats"]; hasUnloaded: boolean }) {
  const { total, complete } = stats;
  return (
    <Secondary size="xs">
      {complete ? "In the whole range: " : "The newest "}
      {countOf(total.traces, "trace")}
      {total.errors !== undefined && `, ${total.errors.toLocaleString("en")} with errors`}
      {total.p95_nanos !== undefined &&
        ` · p50 ${formatDuration(total.p50_nanos ?? 0)}, p95 ${formatDuration(total.p95_nanos)}`}
      {hasUnloaded && " · hatched: not loaded yet"}
    </Secondary>
  );
}

/** Whether older traces than those loaded match. */
function hasUnloadedTraces({ request, cursor }: SearchState): boolean {
  return request.order === "newest" && cursor !== null;
}

function hasDurations({ traces }: SearchState): boolean {
  return traces.some((trace) => trace.duration_nanos !== null);
}
