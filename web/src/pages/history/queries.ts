import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { type Api, api, unwrap, unwrapWithEtag } from "../../api/client";
import { queryClient, RUN_ONCE } from "../../api/queries";
import { parseJson, writeJson } from "../../lib/json";
import { etagOf, type ModelFile } from "./changes";

const PAGE_SIZE = 50;

/** All versions of the access model, newest first. */
export const historyQuery = infiniteQueryOptions({
  queryKey: ["model-history"],
  queryFn: ({ pageParam, signal }) =>
    unwrap(
      api.GET("/schema/history", {
        params: { query: { limit: PAGE_SIZE, ...(pageParam === null ? {} : { cursor: pageParam }) } },
        signal,
      }),
    ),
  initialPageParam: null as string | null,
  getNextPageParam: ({ next_cursor }) => next_cursor ?? null,
});

/** A version with its file and its changes. */
export const versionQuery = (version: number) =>
  queryOptions({
    queryKey: ["model-version", version],
    // Tests in the file may contain integers that a JavaScript number would round.
    queryFn: async ({ signal }) =>
      parseJson(
        await unwrap(
          api.GET("/schema/history/{version}", { params: { path: { version } }, parseAs: "text", signal }),
        ),
      ) as Api["ModelAtChange"],
    // Stored versions never change.
    staleTime: Number.POSITIVE_INFINITY,
  });

/** The file of a version, in a form that can be planned and applied. */
export function fileOf({ version, file }: Api["ModelAtChange"]): ModelFile {
  return { id: `version ${version}`, text: writeJson(file), type: "application/json" };
}

const YAML_OPTIONS = { headers: { accept: "application/yaml" }, parseAs: "text" } as const;

/** The access model as YAML: the current one, or that of a version. */
export async function fetchYaml(version: number | null): Promise<{ name: string; text: string }> {
  const { data, etag } = await unwrapWithEtag(
    version === null
      ? api.GET("/schema/export", YAML_OPTIONS)
      : api.GET("/schema/history/{version}", { params: { path: { version } }, ...YAML_OPTIONS }),
  );
  const number = version ?? Number(/\d+/.exec(etag ?? "")?.[0]);
  return {
    name: Number.isNaN(number) ? "access-model.yaml" : `access-model-${number}.yaml`,
    text: data as string,
  };
}

/** Time limit in seconds for counting the effects of a plan. */
export const PLAN_SECONDS = 10;

const fetchPlan = async (file: ModelFile, signal: AbortSignal) =>
  parseJson(
    await unwrap(
      api.POST("/schema/plan", {
        ...bodyOf(file),
        params: { query: { seconds: PLAN_SECONDS } },
        parseAs: "text",
        signal,
      }),
    ),
  ) as Api["ModelPlan"];

/** The plan of a file. It queries ClickHouse, and is therefore requested only once per file. */
export const planQuery = (file: ModelFile) =>
  queryOptions({
    queryKey: ["model-plan", file.id],
    queryFn: ({ signal }) => fetchPlan(file, signal),
    ...RUN_ONCE,
    gcTime: 0,
  });

/** The plan of the current access model with another binding. The `etag` makes a new version a new query. */
export const bindingPlanQuery = (binding: Api["Binding"], etag: string | null) =>
  queryOptions({
    queryKey: ["binding-plan", binding, etag],
    queryFn: async ({ signal }) => {
      const exported = await unwrapWithEtag(api.GET("/schema/export", { parseAs: "text", signal }));
      const file = parseJson(exported.data as unknown as string) as object;
      const plan = await fetchPlan(
        { id: "binding", text: writeJson({ ...file, binding }), type: "application/json" },
        signal,
      );
      // Otherwise the plan would also undo a change that was made in between.
      if (exported.etag !== etagOf(plan.version)) {
        throw new Error("The access model changed while the traces were counted. Count again.");
      }
      return plan;
    },
    ...RUN_ONCE,
    gcTime: 0,
  });

/** Applies a file, but only to the version that it was planned against. */
export async function importModel(file: ModelFile, baseVersion: number): Promise<Api["ImportedModel"]> {
  const importedModel = await unwrap(
    api.PUT("/schema/import", { params: { header: { "If-Match": etagOf(baseVersion) } }, ...bodyOf(file) }),
  );
  await invalidateAll();
  return importedModel;
}

/** Restores an earlier version. */
export async function restoreModel(version: number, baseVersion: number): Promise<Api["ImportedModel"]> {
  const importedModel = await unwrap(
    api.POST("/schema/history/{version}/restore", {
      params: { path: { version }, header: { "If-Match": etagOf(baseVersion) } },
    }),
  );
  await invalidateAll();
  return importedModel;
}

/** Sends the file's text unchanged: exactly the text that the plan was made for. */
const bodyOf = ({ text, type }: ModelFile) => ({
  body: text,
  bodySerializer: () => text,
  headers: { "content-type": type },
});

/** Another model may change roles, fields and visible traces. */
async function invalidateAll(): Promise<void> {
  await queryClient.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== "model-plan" });
}
