import { Alert, Button, Group, List, Stack, Switch } from "@mantine/core";
import { IconArrowBackUp, IconRefresh } from "@tabler/icons-react";
import { useIsFetching, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch as useUrl } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ApiError } from "../../api/client";
import { filterSchemaQuery } from "../../api/queries";
import { useMe } from "../../app/useMe";
import { useTimeZone } from "../../app/useTimeZone";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageTitle } from "../../components/PageTitle";
import { SanitizedText } from "../../components/SanitizedText";
import { Secondary } from "../../components/Secondary";
import { recentSearches, rememberSearch } from "../../lib/recentSearches";
import { instantOf } from "../../lib/time";
import { omitUndefined } from "../../lib/urlParams";
import { Charts } from "./Charts";
import { ConditionEntry, type EntryHandle } from "./ConditionEntry";
import { CopyMenu } from "./CopyMenu";
import { DEFAULT_COLUMNS } from "./columns";
import { editText, errorCondition, type FilterTerm } from "./conditions";
import { Facets } from "./Facets";
import facetClasses from "./Facets.module.css";
import { searchableFields } from "./fields";
import { NoResults, NoTraceTable } from "./NoResults";
import { Operations, operationFields } from "./Operations";
import type { Order } from "./order";
import type { ParsedTerm } from "./parse";
import { ResultsSkeleton, ResultsTable } from "./ResultsTable";
import { DEFAULT_RANGE, formatUtc, type Range, rangeLabel } from "./range";
import { type ResolvedSearch, resolveSearch } from "./resolveSearch";
import classes from "./SearchPage.module.css";
import { StatusLine } from "./StatusLine";
import type { SearchState } from "./searchState";
import { TimeRange } from "./TimeRange";
import { Toolbar } from "./Toolbar";
import { columnsOf, rangeError, rangeOf, type SearchUrl, withConditions, withRange } from "./url";
import { useLive } from "./useLive";
import { useSearch } from "./useSearch";
import { STATS_KEY, useStats } from "./useStats";
import { type Zoom, zoomsLeadingTo } from "./zoomHistory";

const NO_TRACES: SearchState["traces"] = [];
const NO_SEARCHES: readonly string[] = [];

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
  const order = url.sort ?? "newest";
  const viewer = JSON.stringify([me.id, me.preview]);
  const run = useSearch(
    resolved.filter === null || me.id === "" ? null : { filter: resolved.filter, order, range, viewer },
  );
  const { state } = run;
  const [wantsLive, setWantsLive] = useState(false);
  // A fixed range does not change.
  const isLive = wantsLive && range.kind === "last" && resolved.filter !== null;
  const runningStats = useIsFetching({ queryKey: [STATS_KEY] });
  // A restart would take back further pages, and the focus from a result.
  const isLiveReady = () =>
    state !== undefined &&
    state.status !== "running" &&
    state.pages <= 1 &&
    !run.isRetrying &&
    runningStats === 0 &&
    document.activeElement?.closest("[data-result]") == null;
  useLive(isLive, isLiveReady, run.restart, () => setWantsLive(false));
  const displayed = useLastResults(state, viewer, isLive);
  const isOutdated = displayed !== undefined && displayed !== state;
  const hasFirstPage = displayed !== undefined && displayed.pages > 0 && displayed.traces.length > 0;
  const stats = useStats(hasFirstPage ? displayed : undefined, fields, viewer);

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
  const setConditions = (conditions: readonly ParsedTerm[]) => goTo(withConditions(url, conditions, fields));
  /** Adds a term, or removes it if the search has it. */
  const toggleTerm = (term: FilterTerm) => {
    const text = editText(term);
    const others = resolved.parsedConditions.filter(
      (other) => !("term" in other) || editText(other.term) !== text,
    );
    const isAdded = others.length === resolved.parsedConditions.length;
    setConditions(isAdded ? [...others, { term, text }] : others);
  };
  const zoomTo = (from: Date, to: Date) => {
    const zoomedRange: Range = {
      kind: "absolute",
      from: formatUtc(instantOf(from)),
      to: formatUtc(instantOf(to)),
    };
    setZooms([...activeZooms, { from: range, to: zoomedRange }]);
    updateSearch(withRange(url, zoomedRange));
  };
  const isDone = state?.status === "done";
  const searchedText = resolved.filter !== null && isDone ? url.where : undefined;
  useEffect(() => {
    if (searchedText !== undefined && me.id !== "" && me.preview === null) {
      rememberSearch(me.id, searchedText);
    }
  }, [searchedText, me.id, me.preview]);
  const termTexts = useMemo(
    () =>
      new Set(
        resolved.parsedConditions.flatMap((parsed) => ("term" in parsed ? [editText(parsed.term)] : [])),
      ),
    [resolved.parsedConditions],
  );
  /** Adds a term and shows the traces. */
  const showTracesWith = (term: FilterTerm) => {
    const { view: _, ...rest } = url;
    const text = editText(term);
    const added = termTexts.has(text) ? [] : [{ term, text }];
    goTo(withConditions(rest, [...resolved.parsedConditions, ...added], fields));
  };
  const setErrorsOnly = (errors: boolean) =>
    updateSearch(omitUndefined({ ...url, errors: errors ? (true as const) : undefined }));
  const setOrder = (next: Order) =>
    updateSearch(omitUndefined({ ...url, sort: next === "newest" ? undefined : next }));

  const operationsBy = useMemo(() => operationFields(fields), [fields]);
  const showsOperations = url.view === "operations" && operationsBy !== null;

  const traces = displayed?.traces ?? NO_TRACES;
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
  const failed = state?.status === "failed" ? state : null;
  return (
    <>
      <PageTitle title="Search" isDense>
        <CopyMenu request={state?.request} range={range} />
        <Button size="xs" leftSection={<IconRefresh size={16} aria-hidden />} onClick={runSearch}>
          Search
        </Button>
      </PageTitle>
      <Stack gap="xs" mt={6}>
        <ConditionEntry
          ref={entry}
          conditions={resolved.parsedConditions}
          fields={fields}
          maxConditions={limits.max_conditions - (url.errors === true ? 1 : 0)}
          maxValues={limits.max_values}
          window={state?.request.window ?? displayed?.request.window}
          recent={me.preview === null ? recentSearches(me.id) : NO_SEARCHES}
          onChange={setConditions}
          onRun={run.restart}
        />
        <Group justify="space-between" gap="sm">
          <Group gap="sm">
            <TimeRange
              range={range}
              isInvalid={rangeError(url) !== null}
              window={state?.request.window}
              onChange={setRange}
            />
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
            <Switch
              label="Live"
              title="Repeats the search every 10 seconds, while this window is visible and in use"
              checked={isLive}
              disabled={range.kind !== "last"}
              onChange={(event) => setWantsLive(event.currentTarget.checked)}
            />
            {(canFilterErrors || url.errors === true) && (
              <Switch
                label="Errors only"
                checked={url.errors === true}
                onChange={(event) => setErrorsOnly(event.currentTarget.checked)}
              />
            )}
          </Group>
          <Toolbar
            view={operationsBy === null ? null : showsOperations ? "operations" : "traces"}
            onView={(view) =>
              goTo(omitUndefined({ ...url, view: view === "operations" ? view : undefined }), true)
            }
            order={order}
            onOrder={setOrder}
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
                  setConditions(resolved.parsedConditions.filter((condition) => "term" in condition))
                }
              >
                Remove invalid conditions
              </Button>
            )}
          </Alert>
        )}

        {resolved.filter === null && !schema.isPending ? null : isNotBound(state) ? (
          <NoTraceTable />
        ) : (
          <section aria-label="Results">
            <StatusLine
              state={state}
              isAnnounced={!isLive}
              onCancel={() => {
                setWantsLive(false);
                run.cancel();
              }}
            />
            {failed !== null && (
              <Stack mb="sm">
                <ErrorNotice
                  error={failed.error}
                  title={
                    failed.traces.length > 0
                      ? "The results are incomplete"
                      : isOutdated
                        ? "The search failed; showing the results of the previous search"
                        : "The search failed"
                  }
                  onRetry={failed.pages > 0 ? run.loadMore : run.restart}
                />
                {run.isRetrying && <Secondary size="sm">Retrying automatically.</Secondary>}
              </Stack>
            )}
            <div
              className={classes.results}
              aria-busy={state === undefined || state.status === "running"}
              data-outdated={(isOutdated && !isLive) || undefined}
            >
              {url.chart !== "off" && traces.length > 0 && displayed !== undefined && (
                <Charts
                  stats={stats}
                  isOutdated={stats.isPlaceholderData && !isLive}
                  displayed={displayed}
                  highlightedId={highlightedId}
                  onZoom={zoomTo}
                />
              )}

              {traces.length > 0 ? (
                <div className={facetClasses.layout}>
                  {stats.data !== undefined && (
                    <Facets
                      facets={stats.data.facets}
                      fields={fields}
                      terms={termTexts}
                      isOutdated={stats.isPlaceholderData && !isLive}
                      onToggle={toggleTerm}
                    />
                  )}
                  {showsOperations ? (
                    <Operations
                      search={hasFirstPage ? displayed : undefined}
                      by={operationsBy}
                      viewer={viewer}
                      isLive={isLive}
                      onSearch={showTracesWith}
                    />
                  ) : (
                    <ResultsTable
                      traces={traces}
                      columns={columns}
                      order={displayed?.request.order ?? order}
                      onOrder={setOrder}
                      onNearEnd={handleNearEnd}
                      onHighlight={setHighlightedId}
                    />
                  )}
                </div>
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
              !showsOperations &&
              traces.length + state.pages > 0 && <ResultsFooter state={state} onMore={loadMore} />}
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

function ResultsFooter({ state, onMore }: { state: SearchState; onMore: () => void }) {
  if (state.cursor === null) {
    return null;
  }
  return (
    <Group justify="center" mt="sm" gap="sm" c="dimmed" fz="sm">
      <Button variant="default" onClick={onMore} loading={state.status === "running"}>
        Load more
      </Button>
    </Group>
  );
}

function isNotBound(state: SearchState | undefined): boolean {
  return state?.error instanceof ApiError && state.error.code === "not_bound";
}

/** The search to show: the previous one until the new one has results; in live mode, until it has ended. */
function useLastResults(
  state: SearchState | undefined,
  viewer: string,
  isLive: boolean,
): SearchState | undefined {
  const [last, setLast] = useState<{ state: SearchState; viewer: string } | undefined>();
  const hasEnded = state !== undefined && state.status !== "running";
  // A search that failed without results keeps those of the previous one in view.
  const hasResults =
    state !== undefined &&
    ((state.traces.length > 0 && (hasEnded || !isLive)) ||
      (hasEnded && (state.status !== "failed" || last === undefined || last.viewer !== viewer)));
  if (hasResults && state !== last?.state) {
    setLast({ state, viewer });
    return state;
  }
  // Results of another user or access are never shown, not even briefly.
  return last?.viewer === viewer ? last.state : undefined;
}
