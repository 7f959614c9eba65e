import { ApiError, apiError, signedOut } from "../../api/client";
import { writeJson } from "../../lib/json";
import { type Line, lotsOfLines } from "./lines";
import type { Question } from "./state";

/** Traces per page, few enough for the first ones to arrive soon. */
export const PAGE = 100;

/** A response without its last line, which is therefore incomplete. */
export class BrokenOff extends Error {
  constructor() {
    super("The response was aborted before its end, so that the results are incomplete.");
    this.name = "BrokenOff";
  }
}

/** The body of `POST /traces/query` for a page. */
export function bodyOf({ conditions, window }: Question, cursor: string | null, limit = PAGE): object {
  return {
    ...(conditions.length === 0 ? {} : { filter: { conditions } }),
    ...window,
    view: "summary",
    limit,
    ...(cursor === null ? {} : { cursor }),
  };
}

/** Requests a page and yields its lines as they arrive. It ends without an error only if the page is complete. */
export async function* page(
  question: Question,
  cursor: string | null,
  signal: AbortSignal,
): AsyncGenerator<Line[]> {
  const response = await globalThis.fetch("/traces/query", {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/x-ndjson" },
    body: writeJson(bodyOf(question, cursor), 0),
    signal,
  });
  if (!response.ok || response.body === null) {
    if (response.status === 401) {
      signedOut(response);
    }
    throw apiError(response, await response.json().catch(() => null));
  }
  let whole = false;
  try {
    for await (const lines of lotsOfLines(response.body)) {
      yield lines;
      for (const line of lines) {
        if (line.kind === "error") {
          throw new ApiError(line.problem.status, line.problem);
        }
        whole ||= line.kind === "end";
      }
    }
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) {
      throw error;
    }
    // The status was successful, so that the service was reachable: the service or an intermediary aborted the connection.
    throw new BrokenOff();
  }
  if (!whole) {
    throw new BrokenOff();
  }
}
