import { useDebouncedValue } from "@mantine/hooks";
import { useQueries, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { countOf } from "../../lib/numbers";
import type { Field } from "./fields";
import type { Stage } from "./parse";
import type { Window } from "./range";
import { callerFields, typedWord, wordFields } from "./words";

/** Time after the last key until values are requested. */
const DEBOUNCE_MS = 300;

const valuesQuery = (ref: string, contains: string, window: Window | undefined, limit: number) => ({
  queryKey: ["filter-values", ref, contains, window, limit],
  queryFn: ({ signal }: { signal: AbortSignal }) =>
    unwrap(
      api.GET("/filter/values", {
        params: { query: { ref, limit, ...(contains === "" ? {} : { contains }), ...window } },
        signal,
      }),
    ),
  staleTime: 60_000,
  retry: false,
});

export type WordOption = { field: Field; value: string; count: string };
type WordSuggestions = { options: WordOption[]; isExact: boolean; loading: boolean };

const MAX_VALUES_OF_WORD = 5;

/** Conditions with values that contain the typed word: on service, operation and status, or else on fields that identify the caller. */
export function useWordSuggestions(
  stage: Stage,
  fields: readonly Field[],
  window: Window | undefined,
  opened: boolean,
): WordSuggestions {
  const word = typedWord(stage) ?? "";
  const [debouncedWord] = useDebouncedValue(word, DEBOUNCE_MS);
  const isSettled = word === debouncedWord;
  const first = useWordValues(isSettled ? word : "", wordFields(fields), window, opened);
  const isExact = (options: readonly WordOption[]) =>
    options.some(({ value }) => value.toLowerCase() === word.toLowerCase());
  // Only then: the service limits the queries of a user.
  const needsMore = isSettled && !first.isPending && !isExact(first.options);
  const more = useWordValues(needsMore ? word : "", callerFields(fields), window, opened);
  if (word === "" || !isSettled || first.isPending || more.isPending) {
    const loading = opened && word !== "" && wordFields(fields).length + callerFields(fields).length > 0;
    return { options: [], isExact: false, loading };
  }
  const options = [...first.options, ...more.options];
  const isWord = (value: string) => value.toLowerCase() === word.toLowerCase();
  options.sort((a, b) => Number(isWord(b.value)) - Number(isWord(a.value)));
  return { options, isExact: isExact(options), loading: false };
}

/** Conditions on these fields with values that contain the word; none for an empty word. */
function useWordValues(
  word: string,
  candidates: readonly Field[],
  window: Window | undefined,
  opened: boolean,
): { options: WordOption[]; isPending: boolean } {
  const fields = word === "" ? [] : candidates;
  const results = useQueries({
    queries: fields.map((field) => ({
      ...valuesQuery(field.ref, word, window, MAX_VALUES_OF_WORD),
      enabled: opened,
    })),
  });
  const options = results.flatMap(({ data }, index) => {
    const field = fields[index];
    return field === undefined || data === undefined
      ? []
      : data.values.map(({ value, traces }) => ({ field, value, count: countOf(traces, "trace") }));
  });
  return { options, isPending: results.some((result) => result.isFetching) };
}

type ValueSuggestions = { options: { value: string; count: string }[]; note: string; loading: boolean };

/** Suggested values for the value that is being typed. */
export function useValueSuggestions(
  stage: Stage,
  window: Window | undefined,
  opened: boolean,
): ValueSuggestions {
  const valueStage = stage.kind === "value" && stage.isClosed !== true ? stage : null;
  const [typed] = useDebouncedValue(valueStage?.partial ?? "", DEBOUNCE_MS);
  const hasText = valueStage?.field.type === "string" || valueStage?.field.type === "string_array";
  const ref = valueStage?.field.ref ?? "";
  const { data, isFetching, isError } = useQuery({
    ...valuesQuery(ref, typed, window, 20),
    enabled: opened && hasText && valueStage?.partial === typed,
    // Keeps the previous values while new ones load, so that the list does not flicker.
    placeholderData: (previous, query) => (query?.queryKey[1] === ref ? previous : undefined),
  });
  if (valueStage === null) {
    return { options: [], note: "", loading: false };
  }
  if (valueStage.field.type === "boolean") {
    const options = ["true", "false"].filter((value) => value.startsWith(valueStage.partial.toLowerCase()));
    return { options: options.map((value) => ({ value, count: "" })), note: "", loading: false };
  }
  const loading = hasText && opened && (isFetching || valueStage.partial !== typed);
  if (isError || data === undefined) {
    return {
      options: [],
      note: isError ? "Suggestions are unavailable at the moment. Type a value." : "",
      loading,
    };
  }
  const note = [
    data.complete ? "" : `Counted in the newest ${data.sampled_traces.toLocaleString("en")} traces.`,
    data.more ? "More values exist: type to find them." : "",
    data.unlisted > 0 ? `${data.unlisted} are too long to list.` : "",
  ];
  return {
    options: data.values
      .filter(
        ({ value }) =>
          value.toLowerCase().includes(valueStage.partial.toLowerCase()) &&
          !valueStage.values.includes(value),
      )
      .map(({ value, traces }) => ({
        value,
        count: countOf(traces, "trace"),
      })),
    note: note.filter(Boolean).join(" "),
    loading,
  };
}
