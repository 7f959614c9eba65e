import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { type Api, ApiError, api, ask } from "../../api/client";
import { filterSchemaQuery, queryClient } from "../../api/queries";
import { checkQuery } from "../../editor/queries";
import { policyFields } from "../../editor/vocabulary";
import { parseJson, writeJson } from "../../lib/json";
import { schemaQuery } from "../source/queries";
import type { DraftPolicy } from "./draft";
import { batches, columnsOf, type PolicyTrial, type Span, type TrialTrace, tracesOf } from "./trial";

/** Selection of the spans to load. */
export type Choice =
  | { readonly kind: "newest"; readonly hours: number }
  | { readonly kind: "trace"; readonly id: string };

const NEWEST_TRACES = 10;

type Page = { schema: Api["SchemaBinding"]; spans?: Span[] };

/** Large integers stay exact in both directions: the result for a value must be the result for the stored row. */
const page = (text: string) => parseJson(text) as Page;

async function newest(hours: number, columns: string[]): Promise<Page> {
  const from = new Date(Date.now() - hours * 3_600_000).toISOString();
  const query = (part: { columns?: string[] }) =>
    ask(api.POST("/traces/query", { body: { from, limit: NEWEST_TRACES, ...part }, parseAs: "text" }));
  try {
    return page(await query({ columns }));
  } catch (error) {
    // A member of a nested column is not always a column itself.
    if (error instanceof ApiError && error.code === "unknown_field") {
      return page(await query({}));
    }
    throw error;
  }
}

async function oneTrace(id: string): Promise<Page> {
  return page(await ask(api.GET("/traces/{id}", { params: { path: { id } }, parseAs: "text" })));
}

/** Loads spans that the administrator may see, to test policies with. */
export function useSpans() {
  const schema = useQuery(filterSchemaQuery);
  const source = useQuery(schemaQuery);
  const columns = useMemo(() => columnsOf(policyFields(schema.data?.fields ?? [])), [schema.data]);
  const display = source.data?.model.binding?.display ?? {};
  return useMutation({
    mutationFn: async (choice: Choice): Promise<TrialTrace[]> => {
      const shown = [display.name, display.service].filter((column) => column != null);
      const found =
        choice.kind === "trace"
          ? await oneTrace(choice.id)
          : await newest(choice.hours, [...new Set([...columns, ...shown])]);
      return tracesOf(found.spans ?? [], found.schema, display, columns);
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
): { policies: PolicyTrial[]; pending: boolean } {
  const [settled] = useDebouncedValue(draft, PAUSE_MS);
  // A string, which is equal as long as its content is.
  const [asked] = useDebouncedValue(JSON.stringify(user), PAUSE_MS);
  const written = settled.filter(({ expression }) => expression.trim() !== "");
  const spans = useMemo(() => traces.flatMap((trace) => trace.spans.map(({ columns }) => columns)), [traces]);
  return useQueries({
    queries: written.map(({ key, expression }) => ({
      queryKey: ["policy-trial", key, expression, asked, loadedAt],
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        evaluate(expression, JSON.parse(asked), spans, signal),
      enabled: spans.length > 0,
      staleTime: Number.POSITIVE_INFINITY,
      retry: false,
      gcTime: 60_000,
    })),
    combine: (found) => ({
      policies: written.map(({ key, title, expression }, index) => ({
        key,
        title,
        expression,
        results: found[index]?.data ?? null,
        error: found[index]?.error ?? null,
      })),
      pending: found.some(({ isFetching }) => isFetching),
    }),
  });
}

async function evaluate(
  expression: string,
  user: Api["EvaluatedUser"],
  spans: readonly Span[],
  signal: AbortSignal,
): Promise<Api["Evaluation"][]> {
  // The editor uses the same query. An expression with errors is not sent.
  const { valid } = await queryClient.fetchQuery(checkQuery(expression));
  if (!valid) {
    throw new Error("The expression has errors, which are listed below it.");
  }
  const results: Api["Evaluation"][] = [];
  for (const part of batches(spans)) {
    const body = { expression, user, spans: part as Api["EvaluateRequest"]["spans"] };
    const found = await ask(
      api.POST("/policies/evaluate", { body, bodySerializer: (value) => writeJson(value, 0), signal }),
    );
    results.push(...found.results);
  }
  return results;
}
