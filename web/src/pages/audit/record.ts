import type { Api } from "../../api/client";

type AuditRecord = Api["AuditRecord"];

/** Who did it, as a text. */
export function actorName({ actor }: AuditRecord): string {
  return actor.username ?? (actor.via === "service" ? "the service" : "unknown");
}

/** What the filter by actor takes for who did it; `null` when nobody is known. */
export function actorFilter({ actor }: AuditRecord): string | null {
  return actor.username ?? actor.id;
}

const VIAS: Record<string, string> = {
  session: "browser session",
  api_key: "API key",
  mcp: "MCP",
  service: "by itself",
};

export function viaLabel(via: string | null): string {
  return via === null ? "unknown" : (VIAS[via] ?? via);
}

function member(detail: unknown, name: string): unknown {
  return typeof detail === "object" && detail !== null && Object.hasOwn(detail, name)
    ? Object.getOwnPropertyDescriptor(detail, name)?.value
    : undefined;
}

/** The call of a tool that came in by MCP: which one, and what the client calls itself, which may be anything. */
export function toolCallOf({ detail }: AuditRecord): { tool: string | null; client: string | null } | null {
  const call = member(detail, "mcp");
  if (call === undefined || call === null) {
    return null;
  }
  const [tool, client] = ["tool", "client"].map((name) => member(call, name));
  return {
    tool: typeof tool === "string" ? tool : null,
    client: typeof client === "string" ? client : null,
  };
}

const counted = (count: number, what: string) =>
  `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

/** What of the details is worth a place in the list: the tool, why it failed, or how much was read. */
export function inShort(record: AuditRecord): string {
  const { detail, action } = record;
  const parts: string[] = [];
  const tool = toolCallOf(record)?.tool;
  if (typeof tool === "string") {
    parts.push(tool);
  }
  const [code, traces, spans] = ["code", "traces", "spans"].map((name) => member(detail, name));
  if (typeof code === "string") {
    parts.push(code);
  }
  if (typeof traces === "number") {
    parts.push(counted(traces, "trace"));
  }
  if (typeof spans === "number" && spans > 0) {
    parts.push(counted(spans, "span"));
  }
  const name = member(detail, "name");
  if (action.startsWith("api_key.") && typeof name === "string") {
    parts.push(name);
  }
  const preview = member(detail, "preview");
  if (preview !== undefined && preview !== null) {
    const username = member(preview, "username");
    parts.push(typeof username === "string" ? `viewed as ${username}` : "viewed as other roles");
  }
  return parts.join(", ");
}

/** Up to when records were removed for their age, as the newest removal tells. */
export function prunedBefore(removal: AuditRecord | undefined): string | null {
  const before = removal === undefined ? undefined : member(removal.detail, "before");
  return typeof before === "string" ? before : null;
}
