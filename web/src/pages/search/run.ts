import { ApiError, apiError, signedOut } from "../../api/client";
import { writeJson } from "../../lib/json";
import { type Line, lotsOfLines } from "./lines";
import type { Question } from "./state";

/** Traces of a page: few enough that the first come soon. */
export const PAGE = 100;

/** An answer without its last line: what came of it is not the whole page. */
export class BrokenOff extends Error {
  constructor() {
    super("The answer broke off before its end, so that what is shown is not complete.");
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

/** Asks for a page and hands its lines over as they arrive. Ends without an error only when the page is whole. */
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
    // The status was a good one, so that the service can be reached: it or something between ended the connection.
    throw new BrokenOff();
  }
  if (!whole) {
    throw new BrokenOff();
  }
}
