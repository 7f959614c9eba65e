import { Alert, Button, Group, List, Stack, Switch } from "@mantine/core";
import { IconArrowBackUp, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch as useUrl } from "@tanstack/react-router";
import { useCallback, useMemo, useRef, useState } from "react";
import { ApiError } from "../../api/client";
import { filterSchemaQuery } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { useTimeZone } from "../../app/useTimeZone";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageTitle } from "../../components/PageTitle";
import { SanitizedText } from "../../components/SanitizedText";
import { instantOf } from "../../lib/time";
import { omitUndefined } from "../../lib/urlParams";
import { ConditionEntry, type EntryHandle } from "./ConditionEntry";
import { CopyMenu } from "./CopyMenu";
import { DEFAULT_COLUMNS } from "./columns";
import { errorCondition } from "./conditions";
import { searchableFields } from "./fields";
import { NoResults, NoTraceTable } from "./NoResults";
import type { ParsedCondition } from "./parse";
import { ResultsSkeleton, ResultsTable } from "./ResultsTable";
import { DEFAULT_RANGE, formatUtc, type Range, rangeLabel } from "./range";
import { type ResolvedSearch, resolveSearch } from "./resolveSearch";
import { ScatterChart, ScatterLegend } from "./ScatterChart";
import classes from "./SearchPage.module.css";
import { StatusLine } from "./StatusLine";
import type { SearchState } from "./searchState";
import { type Sort, sortTraces } from "./sorting";
import { TimeRange } from "./TimeRange";
import { Toolbar } from "./Toolbar";
import { columnsOf, rangeError, rangeOf, type SearchUrl, withConditions, withRange } from "./url";
import { useSearch } from "./useSearch";
import { type Zoom, zoomsLeadingTo } from "./zoomHistory";

export function SearchPage() {
  const url = useUrl({ from: "/app/search" });
  const navigate = useNavigate();
  const me = useMe();
  const [zone] = useTimeZone();
  const schema = useQuery(filterSchemaQuery);
  const fields = useMemo(
    () => (schema.data === undefined ? [] : searchableFields(schema.data)),
    [schema.data],
  );
  const limits = schema.data?.limits ?? { max_conditions: 20, max_values: 100 };

  const resolved: ResolvedSearch = useMemo(
    () => resolveSearch(url, schema.data === undefined ? null : fields, limits.max_values),
    [url, schema.data, fields, limits.max_values],
  );
  const range = rangeOf(url);
  const viewer = JSON.stringify([me.id, me.preview]);
  const run = useSearch(
    resolved.conditions === null || me.id === "" ? null : { conditions: resolved.conditions, range, viewer },
  );
  const { state } = run;
  const displayed = useLastResults(state, viewer);
  const isOutdated = displayed !== undefined && displayed !== state;

  const goTo = (next: SearchUrl, replace = false) =>
    void navigate({ to: "/search", search: next, replace, resetScroll: false });
  const entry = useRef<EntryHandle>(null);
  /** Changes the search, including the typed text. An invalid text is reported at the entry and not searched for. */
  const updateSearch = (next: SearchUrl) => {
    const conditions = entry.current?.commitText() ?? resolved.parsedConditions;
    goTo(conditions === resolved.parsedConditions ? next : withConditions(next, conditions, fields));
  };
  const runSearch = () => {
    const conditions = entry.current?.commitText() ?? null;
    if (conditions === null) {
      return;
    }
    const next = withConditions(url, conditions, fields);
    if (conditions === resolved.parsedConditions || next.where === url.where) {
      run.restart();
    } else {
      goTo(next);
    }
  };
  const [zooms, setZooms] = useState<readonly Zoom[]>([]);
  const activeZooms = zoomsLeadingTo(zooms, range);
  const previousRange = activeZooms.at(-1)?.from;
  const setRange = (next: Range) => {
    setZooms([]);
    updateSearch(withRange(url, next));
  };
  const setConditions = (conditions: readonly ParsedCondition[]) =>
    goTo(withConditions(url, conditions, fields));
  const setErrorsOnly = (errors: boolean) =>
    updateSearch(omitUndefined({ ...url, errors: errors ? (true as const) : undefined }));
  const setSort = (next: Sort) =>
    goTo(omitUndefined({ ...url, sort: next === "newest" ? undefined : next }), true);

  const sort = url.sort ?? "newest";
  const traces = useMemo(() => sortTraces(displayed?.traces ?? [], sort), [displayed?.traces, sort]);
  const columns = useMemo(() => columnsOf(url), [url]);
  const [highlightedId, setHighlightedId] = useState<string | null>(null);
  const { loadMore } = run;
  const handleNearEnd = useCallback(() => {
    if (state?.status === "done" && state.cursor !== null) {
      loadMore();
    }
  }, [state?.status, state?.cursor, loadMore]);

  const canFilterErrors = errorCondition(fields) !== null;
  const invalidConditions = resolved.parsedConditions.filter((condition) => "error" in condition);
  const hasFailed = displayed?.status === "failed" && !isOutdated;
  return (
    <>
      <PageTitle title="Search">
        <CopyMenu request={state?.request} range={range} />
        <Button size="xs" leftSection={<IconRefresh size={16} aria-hidden />} onClick={runSearch}>
          Search
        </Button>
      </PageTitle>
      <Stack gap="sm">
        <ConditionEntry
          ref={entry}
          conditions={resolved.parsedConditions}
          fields={fields}
          maxConditions={limits.max_conditions - (url.errors === true ? 1 : 0)}
          maxValues={limits.max_values}
          window={state?.request.window ?? displayed?.request.window}
          onChange={setConditions}
          onRun={run.restart}
        />
        <Group justify="space-between" gap="sm">
          <Group gap="sm">
            <TimeRange range={range} window={state?.request.window} onChange={setRange} />
            {previousRange !== undefined && (
              <Button
                size="xs"
                variant="light"
                leftSection={<IconArrowBackUp size={16} aria-hidden />}
                onClick={() => updateSearch(withRange(url, previousRange))}
              >
                Back to {rangeLabel(previousRange, zone)}
              </Button>
            )}
            {(canFilterErrors || url.errors === true) && (
              <Switch
                label="Errors only"
                checked={url.errors === true}
                onChange={(event) => setErrorsOnly(event.currentTarget.checked)}
              />
            )}
          </Group>
          <Toolbar
            sort={sort}
            onSort={setSort}
            columns={columns}
            onColumns={(next) => {
              const text = next.join(".");
              const columns = text === DEFAULT_COLUMNS.join(".") ? undefined : text;
              goTo(omitUndefined({ ...url, columns }), true);
            }}
            showChart={url.chart !== "off"}
            onChart={(chart) =>
              goTo(omitUndefined({ ...url, chart: chart ? undefined : ("off" as const) }), true)
            }
          />
        </Group>

        {schema.isError && <ErrorNotice error={schema.error} onRetry={() => void schema.refetch()} />}
        {(invalidConditions.length > 0 || resolved.error !== null) && (
          <Alert color="yellow" title="This search is invalid">
            <List size="sm">
              {invalidConditions.map((condition) => (
                <List.Item key={condition.text}>
                  <SanitizedText text={condition.error} />
                </List.Item>
              ))}
              {resolved.error !== null && <List.Item>{resolved.error}</List.Item>}
            </List>
            {rangeError(url) !== null && (
              <Button size="xs" variant="default" mt="xs" mr="xs" onClick={() => setRange(DEFAULT_RANGE)}>
                Search the {rangeLabel(DEFAULT_RANGE, zone)}
              </Button>
            )}
            {invalidConditions.length > 0 && (
              <Button
                size="xs"
                variant="default"
                mt="xs"
                onClick={() =>
                  setConditions(resolved.parsedConditions.filter((condition) => "condition" in condition))
                }
              >
                Remove invalid conditions
              </Button>
            )}
          </Alert>
        )}

        {resolved.conditions === null && !schema.isPending ? null : isNotBound(state) ? (
          <NoTraceTable />
        ) : (
          <section aria-label="Results">
            <StatusLine state={state} onCancel={run.cancel} />
            <div
              className={classes.results}
              aria-busy={isOutdated || state === undefined || state.status === "running"}
              data-outdated={isOutdated || undefined}
            >
              {url.chart !== "off" &&
                traces.length > 0 &&
                displayed !== undefined &&
                hasDurations(displayed) && (
                  <Stack gap={4} mb="sm">
                    <ScatterChart
                      traces={displayed.traces}
                      from={displayed.request.window.from}
                      to={displayed.request.window.to}
                      isComplete={displayed.status === "done" && displayed.cursor === null}
                      highlightedId={highlightedId}
                      onZoom={(from, to) => {
                        const zoomedRange: Range = {
                          kind: "absolute",
                          from: formatUtc(instantOf(from)),
                          to: formatUtc(instantOf(to)),
                        };
                        setZooms([...activeZooms, { from: range, to: zoomedRange }]);
                        updateSearch(withRange(url, zoomedRange));
                      }}
                    />
                    <ScatterLegend loadedCount={displayed.cursor === null ? null : displayed.traces.length} />
                  </Stack>
                )}
              {hasFailed && (
                <Stack mb="sm">
                  <ErrorNotice
                    error={displayed.error}
                    title={displayed.traces.length === 0 ? "The search failed" : "The results are incomplete"}
                    onRetry={displayed.pages > 0 ? run.loadMore : run.restart}
                  />
                </Stack>
              )}
              {traces.length > 0 ? (
                <ResultsTable
                  traces={traces}
                  columns={columns}
                  sort={sort}
                  onSort={setSort}
                  onNearEnd={handleNearEnd}
                  onHighlight={setHighlightedId}
                />
              ) : displayed === undefined || displayed.status === "running" ? (
                <ResultsSkeleton />
              ) : (
                displayed.status === "done" && (
                  <NoResults
                    range={range}
                    conditionCount={resolved.parsedConditions.length}
                    errorsOnly={url.errors === true}
                    onRange={setRange}
                    onClear={() => setConditions([])}
                    onAllSpans={() => setErrorsOnly(false)}
                  />
                )
              )}
            </div>
            {!isOutdated &&
              state !== undefined &&
              state.status !== "failed" &&
              traces.length + state.pages > 0 && (
                <ResultsFooter state={state} sort={sort} onMore={loadMore} />
              )}
            {state?.status === "cancelled" && state.pages === 0 && (
              <Group justify="center" mt="sm">
                <Button variant="default" onClick={run.restart}>
                  Search again
                </Button>
              </Group>
            )}
          </section>
        )}
      </Stack>
    </>
  );
}

function ResultsFooter({ state, sort, onMore }: { state: SearchState; sort: Sort; onMore: () => void }) {
  if (state.cursor === null) {
    return null;
  }
  return (
    <Group justify="center" mt="sm" gap="sm" c="dimmed" fz="sm">
      <Button variant="default" onClick={onMore} loading={state.status === "running"}>
        Load more
      </Button>
      {sort !== "newest" && (
        <span>Only the {state.traces.length.toLocaleString("en")} loaded traces are sorted.</span>
      )}
    </Group>
  );
}

function isNotBound(state: SearchState | undefined): boolean {
  return state?.error instanceof ApiError && state.error.code === "not_bound";
}

function hasDurations({ traces }: SearchState): boolean {
  return traces.some((trace) => trace.duration_nanos !== null);
}

/** The search to show: the previous one until the new one has results. */
function useLastResults(state: SearchState | undefined, viewer: string): SearchState | undefined {
  const [last, setLast] = useState<{ state: SearchState; viewer: string } | undefined>();
  const hasResults = state !== undefined && (state.traces.length > 0 || state.status !== "running");
  if (hasResults && state !== last?.state) {
    setLast({ state, viewer });
    return state;
  }
  // Results of another user or access are never shown, not even briefly.
  return last?.viewer === viewer ? last.state : undefined;
}
