import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { type Api, api, ask, askWithTag } from "../../api/client";
import { queryClient } from "../../api/queries";
import { parseJson, writeJson } from "../../lib/json";
import { type ModelFile, tagOf } from "./changes";

const PAGE = 50;

/** All changes of the access model, newest first. */
export const historyQuery = infiniteQueryOptions({
  queryKey: ["model-history"],
  queryFn: ({ pageParam, signal }) =>
    ask(
      api.GET("/schema/history", {
        params: { query: { limit: PAGE, ...(pageParam === null ? {} : { cursor: pageParam }) } },
        signal,
      }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: ({ next_cursor }) => next_cursor ?? null,
});

/** One change with the file of the state that it made. */
export const changeQuery = (change: number) =>
  queryOptions({
    queryKey: ["model-change", change],
    // Tests in the file may hold integers that a JavaScript number would round.
    queryFn: async ({ signal }) =>
      parseJson(
        await ask(
          api.GET("/schema/history/{change}", { params: { path: { change } }, parseAs: "text", signal }),
        ),
      ) as Api["ModelAtChange"],
    // What has happened stays as it was.
    staleTime: Number.POSITIVE_INFINITY,
  });

/** The file of a state as it can be planned and applied. */
export function fileOf({ change, file }: Api["ModelAtChange"]): ModelFile {
  return { id: `change ${change}`, text: writeJson(file), type: "application/json" };
}

const YAML = { headers: { accept: "application/yaml" }, parseAs: "text" } as const;

/** The model's file in YAML: as it is now, or as a change left it. */
export async function fileInYaml(change: number | null): Promise<{ name: string; text: string }> {
  const { data, tag } = await askWithTag(
    change === null
      ? api.GET("/schema/export", YAML)
      : api.GET("/schema/history/{change}", { params: { path: { change } }, ...YAML }),
  );
  const number = change ?? Number(/\d+/.exec(tag ?? "")?.[0]);
  return {
    name: Number.isNaN(number) ? "access-model.yaml" : `access-model-${number}.yaml`,
    text: data as string,
  };
}

/** Seconds for counting what a plan changes. */
export const PLAN_SECONDS = 10;

/** What applying a file would change. It costs the trace store, and is asked for once for each file. */
export const planQuery = (file: ModelFile) =>
  queryOptions({
    queryKey: ["model-plan", file.id],
    queryFn: async ({ signal }) =>
      parseJson(
        await ask(
          api.POST("/schema/plan", {
            ...bodyOf(file),
            params: { query: { seconds: PLAN_SECONDS } },
            parseAs: "text",
            signal,
          }),
        ),
      ) as Api["ModelPlan"],
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });

/** Applies a file over the state that it was planned against, and no other. */
export async function importModel(file: ModelFile, over: number): Promise<Api["ImportedModel"]> {
  const applied = await ask(
    api.PUT("/schema/import", { params: { header: { "If-Match": tagOf(over) } }, ...bodyOf(file) }),
  );
  await everythingChanged();
  return applied;
}

/** Makes the state of an earlier change the one in force. */
export async function restoreModel(change: number, over: number): Promise<Api["ImportedModel"]> {
  const applied = await ask(
    api.POST("/schema/history/{change}/restore", {
      params: { path: { change }, header: { "If-Match": tagOf(over) } },
    }),
  );
  await everythingChanged();
  return applied;
}

/** The text of the file as it is: what was read of it must be what is sent. */
const bodyOf = ({ text, type }: ModelFile) => ({
  body: text,
  bodySerializer: () => text,
  headers: { "content-type": type },
});

/** Roles, fields, what users see: another model is another of each. */
async function everythingChanged(): Promise<void> {
  await queryClient.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "model-plan" });
}
