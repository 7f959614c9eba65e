import { useDebouncedValue } from "@mantine/hooks";
import { useQueries, useQuery } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { countOf } from "../../lib/numbers";
import type { Field } from "./fields";
import type { Stage } from "./parse";
import type { Window } from "./range";
import { typedWord, wordFields } from "./words";

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

/** Conditions on service, operation and status with values that contain the typed word. */
export function useWordSuggestions(
  stage: Stage,
  fields: readonly Field[],
  window: Window | undefined,
  opened: boolean,
): WordSuggestions {
  const word = typedWord(stage) ?? "";
  const [debouncedWord] = useDebouncedValue(word, DEBOUNCE_MS);
  const candidateFields = word === "" ? [] : wordFields(fields);
  const results = useQueries({
    queries: candidateFields.map((field) => ({
      ...valuesQuery(field.ref, debouncedWord, window, MAX_VALUES_OF_WORD),
      enabled: opened && word === debouncedWord,
    })),
  });
  const isPending = word !== debouncedWord || results.some((result) => result.isFetching);
  const loading = opened && candidateFields.length > 0 && isPending;
  if (isPending) {
    return { options: [], isExact: false, loading };
  }
  const isWord = (value: string) => value.toLowerCase() === word.toLowerCase();
  const options = results.flatMap(({ data }, index) => {
    const field = candidateFields[index];
    return field === undefined || data === undefined
      ? []
      : data.values.map(({ value, traces }) => ({ field, value, count: countOf(traces, "trace") }));
  });
  options.sort((a, b) => Number(isWord(b.value)) - Number(isWord(a.value)));
  return { options, isExact: options.some(({ value }) => isWord(value)), loading };
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
