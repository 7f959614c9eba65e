import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type Api, ApiError, api, unwrap } from "../../api/client";
import { filterSchemaQuery, queryClient, RUN_ONCE } from "../../api/queries";
import { checkQuery } from "../../editor/queries";
import { policyFields } from "../../editor/vocabulary";
import { parseJson, writeJson } from "../../lib/json";
import type { RawSpan } from "../../trace/columns";
import { schemaQuery } from "../source/queries";
import type { DraftPolicy } from "./draft";
import { columnsOf, groupByTrace, type PolicyTrialResult, splitBatches, type TrialTrace } from "./trial";

/** Selection of the spans to load. */
export type SpanSource =
  | { readonly kind: "newest"; readonly hours: number }
  | { readonly kind: "trace"; readonly id: string };

const NEWEST_TRACES = 10;

type Page = { schema: Api["SchemaBinding"]; spans?: RawSpan[] };

/** Large integers stay exact in both directions: the result for a value must be the result for the stored row. */
const parsePage = (text: string) => parseJson(text) as Page;

async function fetchNewestTraces(hours: number, columns: string[]): Promise<Page> {
  const from = new Date(Date.now() - hours * 3_600_000).toISOString();
  const query = (part: { columns?: string[] }) =>
    unwrap(api.POST("/traces/query", { body: { from, limit: NEWEST_TRACES, ...part }, parseAs: "text" }));
  try {
    return parsePage(await query({ columns }));
  } catch (error) {
    // A member of a nested column is not always a column itself.
    if (error instanceof ApiError && error.code === "unknown_field") {
      return parsePage(await query({}));
    }
    throw error;
  }
}

async function fetchTrace(id: string): Promise<Page> {
  return parsePage(await unwrap(api.GET("/traces/{id}", { params: { path: { id } }, parseAs: "text" })));
}

/** Loads spans that the administrator may see, to test policies with. */
export function useSpans() {
  const schema = useQuery(filterSchemaQuery);
  const source = useQuery(schemaQuery);
  const columns = useMemo(() => columnsOf(policyFields(schema.data?.fields ?? [])), [schema.data]);
  const display = source.data?.model.binding?.display ?? {};
  return useMutation({
    mutationFn: async (spanSource: SpanSource): Promise<TrialTrace[]> => {
      const displayedColumns = [display.name, display.service].filter((column) => column != null);
      const page =
        spanSource.kind === "trace"
          ? await fetchTrace(spanSource.id)
          : await fetchNewestTraces(spanSource.hours, [...new Set([...columns, ...displayedColumns])]);
      return groupByTrace(page.spans ?? [], page.schema, display, columns);
    },
  });
}

const PAUSE_MS = 400;

/** Results of each policy with an expression for the spans and the user. They are updated when a policy or the user changes. */
export function usePolicyTrials(
  draft: readonly DraftPolicy[],
  user: Api["EvaluatedUser"],
  traces: readonly TrialTrace[],
  loadedAt: number,
): { policies: PolicyTrialResult[]; pending: boolean } {
  const [debouncedDraft] = useDebouncedValue(draft, PAUSE_MS);
  // A string, which is equal as long as its content is.
  const [userJson] = useDebouncedValue(JSON.stringify(user), PAUSE_MS);
  const policies = debouncedDraft.filter(({ expression }) => expression.trim() !== "");
  const spans = useMemo(() => traces.flatMap((trace) => trace.spans.map(({ columns }) => columns)), [traces]);
  return useQueries({
    queries: policies.map(({ key, expression }) => ({
      queryKey: ["policy-trial", key, expression, userJson, loadedAt],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        evaluate(expression, JSON.parse(userJson), spans, signal),
      enabled: spans.length > 0,
      ...RUN_ONCE,
      gcTime: 60_000,
    })),
    combine: (queries) => ({
      policies: policies.map(({ key, title, expression }, index) => ({
        key,
        title,
        expression,
        results: queries[index]?.data ?? null,
        error: queries[index]?.error ?? null,
      })),
      pending: queries.some(({ isFetching }) => isFetching),
    }),
  });
}

async function evaluate(
  expression: string,
  user: Api["EvaluatedUser"],
  spans: readonly RawSpan[],
  signal: AbortSignal,
): Promise<Api["Evaluation"][]> {
  // The editor uses the same query. An expression with errors is not sent.
  const { valid } = await queryClient.fetchQuery(checkQuery(expression));
  if (!valid) {
    throw new Error("The expression has errors, which are listed below it.");
  }
  const results: Api["Evaluation"][] = [];
  for (const batch of splitBatches(spans)) {
    const body = { expression, user, spans: batch as Api["EvaluateRequest"]["spans"] };
    const response = await unwrap(
      api.POST("/policies/evaluate", { body, bodySerializer: (value) => writeJson(value, 0), signal }),
    );
    results.push(...response.results);
  }
  return results;
}
