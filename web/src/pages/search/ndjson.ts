import type { Api } from "../../api/client";
import { parseJson } from "../../lib/json";

/** Progress of a search. */
export type Progress = { searched_to: string; from: string; to: string; traces: number; fraction?: number };

/** A line of an NDJSON response. Unknown kinds, which a later service may add, are ignored. */
export type Line =
  | { readonly kind: "progress"; readonly progress: Progress }
  | { readonly kind: "trace"; readonly trace: Api["TraceSummary"] }
  | { readonly kind: "end"; readonly cursor: string | null }
  | { readonly kind: "error"; readonly problem: Api["ProblemDetails"] };

/** Parses a line, or returns `null` for an irrelevant one. */
export function parseLine(text: string): Line | null {
  if (text.trim() === "") {
    return null;
  }
  const line = parseJson(text) as {
    progress?: Progress;
    trace?: Api["TraceSummary"];
    end?: { next_cursor?: string | null };
    error?: Api["ProblemDetails"];
  };
  if (line.trace !== undefined) {
    return { kind: "trace", trace: line.trace };
  }
  if (line.progress !== undefined) {
    return { kind: "progress", progress: line.progress };
  }
  if (line.end !== undefined) {
    return { kind: "end", cursor: line.end.next_cursor ?? null };
  }
  return line.error === undefined ? null : { kind: "error", problem: line.error };
}

/** The lines of a body, in batches as they arrive. An incomplete last line is dropped, because the response was aborted in it. */
export async function* readLineBatches(body: ReadableStream<Uint8Array>): AsyncGenerator<Line[]> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let incomplete = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) {
        return;
      }
      const texts = (incomplete + decoder.decode(value, { stream: true })).split("\n");
      incomplete = texts.pop() ?? "";
      const lines = texts.map(parseLine).filter((line) => line !== null);
      if (lines.length > 0) {
        yield lines;
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
}
