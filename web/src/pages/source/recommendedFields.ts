import type { Api } from "../../api/client";
import { applyChange, type Candidate, type Mark, type MarkedField } from "./fields";

/** Keys that identify the owner or the environment of a trace, which policies are usually based on. */
const OWNER_KEY =
  /^(?:.*[._-])?(?:tenant|team|customer|organi[sz]ation|org|account|project|department|business_unit)(?:[._-]?(?:id|name|slug|key))?$/i;

const POLICY_KEYS = new Set([
  "deployment.environment",
  "deployment.environment.name",
  "service.namespace",
  "k8s.namespace.name",
  "k8s.cluster.name",
  "cloud.account.id",
  "env",
  "environment",
]);

const SEARCH_KEYS = new Set([
  "http.route",
  "http.method",
  "http.request.method",
  "http.status_code",
  "http.response.status_code",
  "rpc.service",
  "rpc.method",
  "db.system",
  "db.system.name",
  "messaging.destination.name",
  "error.type",
  "service.version",
  "user.id",
  "enduser.id",
  "gen_ai.operation.name",
  "gen_ai.request.model",
]);

const NUMBER_KEYS = new Set(["http.status_code", "http.response.status_code"]);

/** Common settings for common fields. Existing fields are unchanged.
 *
 * Proposals are limited to the candidates, so that no absent field is proposed. */
export function recommendedMarks(
  candidates: Candidate[],
  binding: Api["Binding"],
  marked: ReadonlyMap<string, MarkedField>,
): { candidate: Candidate; mark: Mark }[] {
  const display = binding.display ?? {};
  const displayedColumns = new Set([display.name, display.service, display.status, display.kind]);
  const result: { candidate: Candidate; mark: Mark }[] = [];
  for (const candidate of candidates) {
    if (marked.has(candidate.key)) {
      continue;
    }
    const { map, name, types } = candidate;
    const isColumn = map === "";
    const policy = isColumn
      ? displayedColumns.has(name) || name === "Events.Name"
      : POLICY_KEYS.has(name) || OWNER_KEY.test(name);
    const search = isColumn ? name === display.duration : SEARCH_KEYS.has(name);
    if (!policy && !search) {
      continue;
    }
    const type = !isColumn && NUMBER_KEYS.has(name) && types.includes("number") ? "number" : types[0];
    if (type !== undefined) {
      const unmarked: Mark = { type, filterable: false, policy: false, column: null };
      result.push({ candidate, mark: applyChange(map, name, unmarked, { filterable: true, policy }) });
    }
  }
  return result;
}
