import { Alert, Button, Group, List, Stack, Switch } from "@mantine/core";
import { IconArrowBackUp, IconRefresh } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch as useUrl } from "@tanstack/react-router";
import { useCallback, useMemo, useRef, useState } from "react";
import { ApiError } from "../../api/client";
import { filterSchemaQuery } from "../../api/queries";
import { useZone } from "../../app/settings";
import { useMe } from "../../app/useMe";
import { ErrorNotice } from "../../components/ErrorNotice";
import { PageTitle } from "../../components/PageTitle";
import { Visible } from "../../components/Visible";
import { instantOf } from "../../lib/time";
import { type Asked, askedOf } from "./asked";
import { ConditionEntry, type EntryHandle } from "./ConditionEntry";
import { CopyMenu } from "./CopyMenu";
import { DEFAULT_COLUMNS } from "./columns";
import { errorsOnly, filterableFields } from "./fields";
import { NotBound, NothingFound } from "./NothingFound";
import type { Read } from "./parse";
import { ResultsSkeleton, ResultsTable } from "./ResultsTable";
import { type Range, rangeLabel, shortTime } from "./range";
import { Scatter, ScatterLegend } from "./Scatter";
import classes from "./SearchPage.module.css";
import { StatusLine } from "./StatusLine";
import { type Sort, sorted } from "./sorting";
import type { SearchState } from "./state";
import { TimeRange } from "./TimeRange";
import { Toolbar } from "./Toolbar";
import { columnsOf, rangeOf, type SearchUrl, withRange, withReads } from "./url";
import { useSearch } from "./useSearch";
import { type Zoom, zoomsTo } from "./zoom";

export function SearchPage() {
  const url = useUrl({ from: "/app/search" });
  const navigate = useNavigate();
  const me = useMe();
  const [zone] = useZone();
  const schema = useQuery(filterSchemaQuery);
  const fields = useMemo(
    () => (schema.data === undefined ? [] : filterableFields(schema.data)),
    [schema.data],
  );
  const limits = schema.data?.limits ?? { max_conditions: 20, max_values: 100 };

  const asked: Asked = useMemo(
    () => askedOf(url, schema.data === undefined ? null : fields, limits.max_values),
    [url, schema.data, fields, limits.max_values],
  );
  const range = rangeOf(url);
  const viewer = JSON.stringify([me.id, me.preview]);
  const run = useSearch(
    asked.conditions === null || me.id === "" ? null : { conditions: asked.conditions, range, viewer },
  );
  const { state } = run;
  const shown = useLastShown(state, viewer);
  const old = shown !== undefined && shown !== state;

  const go = (next: SearchUrl, replace = false) =>
    void navigate({ to: "/search", search: next, replace, resetScroll: false });
  const entry = useRef<EntryHandle>(null);
  /** Changes the search, including the typed text. An invalid text is reported at the entry and not searched for. */
  const ask = (next: SearchUrl) => {
    const reads = entry.current?.take() ?? asked.reads;
    go(reads === asked.reads ? next : withReads(next, reads, fields));
  };
  const search = () => {
    const reads = entry.current?.take() ?? null;
    if (reads === null) {
      return;
    }
    const next = withReads(url, reads, fields);
    if (reads === asked.reads || next.where === url.where) {
      run.again();
    } else {
      go(next);
    }
  };
  const [zooms, setZooms] = useState<readonly Zoom[]>([]);
  const zoomed = zoomsTo(zooms, range);
  const before = zoomed.at(-1)?.from;
  const setRange = (next: Range) => {
    setZooms([]);
    ask(withRange(url, next));
  };
  const setReads = (reads: readonly Read[]) => go(withReads(url, reads, fields));
  const setErrors = (errors: boolean) => {
    const { errors: _, ...rest } = url;
    ask(errors ? { ...rest, errors } : rest);
  };
  const setSort = (next: Sort) => {
    const { sort: _, ...rest } = url;
    go(next === "newest" ? rest : { ...rest, sort: next }, true);
  };

  const sort = url.sort ?? "newest";
  const traces = useMemo(() => sorted(shown?.traces ?? [], sort), [shown?.traces, sort]);
  const columns = useMemo(() => columnsOf(url), [url]);
  const [marked, setMarked] = useState<string | null>(null);
  const { more } = run;
  const nearEnd = useCallback(() => {
    if (state?.status === "done" && state.cursor !== null) {
      more();
    }
  }, [state?.status, state?.cursor, more]);

  const canErrors = errorsOnly(fields) !== null;
  const wrong = asked.reads.filter((one) => "problem" in one);
  const failed = shown?.status === "failed" && !old;
  return (
    <>
      <PageTitle title="Search">
        <CopyMenu question={state?.question} range={range} />
        <Button size="xs" leftSection={<IconRefresh size={16} aria-hidden />} onClick={search}>
          Search
        </Button>
      </PageTitle>
      <Stack gap="sm">
        <ConditionEntry
          ref={entry}
          reads={asked.reads}
          fields={fields}
          maxConditions={limits.max_conditions - (url.errors === true ? 1 : 0)}
          maxValues={limits.max_values}
          window={state?.question.window ?? shown?.question.window}
          onChange={setReads}
          onRun={run.again}
        />
        <Group justify="space-between" gap="sm">
          <Group gap="sm">
            <TimeRange range={range} window={state?.question.window} onChange={setRange} />
            {before !== undefined && (
              <Button
                size="xs"
                variant="light"
                leftSection={<IconArrowBackUp size={16} aria-hidden />}
                onClick={() => ask(withRange(url, before))}
              >
                Back to {rangeLabel(before, zone)}
              </Button>
            )}
            {(canErrors || url.errors === true) && (
              <Switch
                label="Errors only"
                checked={url.errors === true}
                onChange={(event) => setErrors(event.currentTarget.checked)}
              />
            )}
          </Group>
          <Toolbar
            sort={sort}
            onSort={setSort}
            columns={columns}
            onColumns={(next) => {
              const { columns: _, ...rest } = url;
              const text = next.join(".");
              go(text === DEFAULT_COLUMNS.join(".") ? rest : { ...rest, columns: text }, true);
            }}
            chart={url.chart !== "off"}
            onChart={(chart) => {
              const { chart: _, ...rest } = url;
              go(chart ? rest : { ...rest, chart: "off" }, true);
            }}
          />
        </Group>

        {schema.isError && <ErrorNotice error={schema.error} onRetry={() => void schema.refetch()} />}
        {(wrong.length > 0 || asked.problem !== null) && (
          <Alert color="yellow" variant="light" title="This search cannot be run as it is" role="alert">
            <List size="sm">
              {wrong.map((one) => (
                <List.Item key={one.text}>
                  <Visible text={one.problem} />
                </List.Item>
              ))}
              {asked.problem !== null && <List.Item>{asked.problem}</List.Item>}
            </List>
            {wrong.length > 0 && (
              <Button
                size="xs"
                variant="default"
                mt="xs"
                onClick={() => setReads(asked.reads.filter((one) => "condition" in one))}
              >
                Remove invalid conditions
              </Button>
            )}
          </Alert>
        )}

        {asked.conditions === null && !schema.isPending ? null : isNotBound(state) ? (
          <NotBound />
        ) : (
          <section aria-label="Results">
            <StatusLine state={state} onCancel={run.cancel} />
            <div
              className={classes.results}
              aria-busy={old || state === undefined || state.status === "running"}
              data-old={old || undefined}
            >
              {url.chart !== "off" && traces.length > 0 && shown !== undefined && hasDurations(shown) && (
                <Stack gap={4} mb="sm">
                  <Scatter
                    traces={shown.traces}
                    from={shown.question.window.from}
                    to={shown.question.window.to}
                    complete={shown.status === "done" && shown.cursor === null}
                    marked={marked}
                    onZoom={(from, to) => {
                      const closer: Range = {
                        kind: "absolute",
                        from: shortTime(instantOf(from)),
                        to: shortTime(instantOf(to)),
                      };
                      setZooms([...zoomed, { from: range, to: closer }]);
                      ask(withRange(url, closer));
                    }}
                  />
                  <ScatterLegend loaded={shown.cursor === null ? null : shown.traces.length} />
                </Stack>
              )}
              {failed && (
                <Stack mb="sm">
                  <ErrorNotice
                    error={shown.error}
                    title={shown.traces.length === 0 ? "The search failed" : "What is shown is incomplete"}
                    onRetry={shown.pages > 0 ? run.more : run.again}
                  />
                </Stack>
              )}
              {traces.length > 0 ? (
                <ResultsTable
                  traces={traces}
                  columns={columns}
                  sort={sort}
                  onSort={setSort}
                  onNearEnd={nearEnd}
                  onMark={setMarked}
                />
              ) : shown === undefined || shown.status === "running" ? (
                <ResultsSkeleton />
              ) : (
                shown.status === "done" && (
                  <NothingFound
                    range={range}
                    conditions={asked.reads.length}
                    errors={url.errors === true}
                    onRange={setRange}
                    onClear={() => setReads([])}
                    onAllSpans={() => setErrors(false)}
                  />
                )
              )}
            </div>
            {!old && state !== undefined && state.status !== "failed" && traces.length + state.pages > 0 && (
              <Foot state={state} sort={sort} onMore={more} />
            )}
            {state?.status === "cancelled" && state.pages === 0 && (
              <Group justify="center" mt="sm">
                <Button variant="default" onClick={run.again}>
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

function Foot({ state, sort, onMore }: { state: SearchState; sort: Sort; onMore: () => void }) {
  if (state.cursor === null) {
    return null;
  }
  return (
    <Group justify="center" mt="sm" gap="sm" c="var(--tw-quiet)" fz="sm">
      <Button variant="default" onClick={onMore} loading={state.status === "running"}>
        Load more
      </Button>
      {sort !== "newest" && (
        <span>Sorted are the {state.traces.length.toLocaleString("en")} that are loaded.</span>
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
function useLastShown(state: SearchState | undefined, viewer: string): SearchState | undefined {
  const [last, setLast] = useState<{ state: SearchState; viewer: string } | undefined>();
  const shows = state !== undefined && (state.traces.length > 0 || state.status !== "running");
  if (shows && state !== last?.state) {
    setLast({ state, viewer });
    return state;
  }
  // Results of another user or access are never shown, not even briefly.
  return last?.viewer === viewer ? last.state : undefined;
}
