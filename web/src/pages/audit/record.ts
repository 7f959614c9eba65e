import type { Api } from "../../api/client";
import { countOf } from "../../lib/numbers";

type AuditRecord = Api["AuditRecord"];

/** Name of the actor. */
export function actorName({ actor }: AuditRecord): string {
  return actor.username ?? (actor.via === "service" ? "the service" : "unknown");
}

/** Value of the actor filter for a record, or `null` if the actor is unknown. */
export function actorFilter({ actor }: AuditRecord): string | null {
  return actor.username ?? actor.id;
}

const VIA_LABELS: Record<string, string> = {
  session: "browser session",
  api_key: "API key",
  mcp: "MCP",
  service: "the service itself",
};

export function viaLabel(via: string | null): string {
  return via === null ? "unknown" : (VIA_LABELS[via] ?? via);
}

function property(detail: unknown, name: string): unknown {
  return typeof detail === "object" && detail !== null && Object.hasOwn(detail, name)
    ? Object.getOwnPropertyDescriptor(detail, name)?.value
    : undefined;
}

/** The tool call of a record from MCP: the tool, and the client's name, which the client chooses freely. */
export function toolCallOf({ detail }: AuditRecord): { tool: string | null; client: string | null } | null {
  const call = property(detail, "mcp");
  if (call === undefined || call === null) {
    return null;
  }
  const [tool, client] = ["tool", "client"].map((name) => property(call, name));
  return {
    tool: typeof tool === "string" ? tool : null,
    client: typeof client === "string" ? client : null,
  };
}

/** Details for the list: the tool, the reason of a failure, or the amount of data read. */
export function recordSummary(record: AuditRecord): string {
  const { detail, action } = record;
  const parts: string[] = [];
  const tool = toolCallOf(record)?.tool;
  if (typeof tool === "string") {
    parts.push(tool);
  }
  const [code, traces, spans] = ["code", "traces", "spans"].map((name) => property(detail, name));
  if (typeof code === "string") {
    parts.push(code);
  }
  if (typeof traces === "number") {
    parts.push(countOf(traces, "trace"));
  }
  if (typeof spans === "number" && spans > 0) {
    parts.push(countOf(spans, "span"));
  }
  const name = property(detail, "name");
  if (action.startsWith("api_key.") && typeof name === "string") {
    parts.push(name);
  }
  const preview = property(detail, "preview");
  if (preview !== undefined && preview !== null) {
    const username = property(preview, "username");
    parts.push(typeof username === "string" ? `viewed as ${username}` : "viewed as other roles");
  }
  return parts.join(", ");
}

/** The time before which records were removed because of their age, from the newest removal. */
export function pruningCutoff(removal: AuditRecord | undefined): string | null {
  const before = removal === undefined ? undefined : property(removal.detail, "before");
  return typeof before === "string" ? before : null;
}
