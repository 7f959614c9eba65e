import { ApiError, apiError, sendRequest } from "../../api/client";
import { writeJson } from "../../lib/json";
import { type Line, readLineBatches } from "./ndjson";
import { ORDERS, type Order } from "./order";
import type { SearchRequest } from "./searchState";

/** Traces per page, few enough for the first ones to arrive soon. */
const PAGE_SIZE = 100;

/** A response without its last line, which is therefore incomplete. */
class StreamAborted extends Error {
  constructor() {
    super("The response was aborted before its end. The results are incomplete.");
    this.name = "StreamAborted";
  }
}

/** The `order` argument, unless it is the default. */
export function orderArgument(order: Order): { order?: string } {
  return order === "newest" ? {} : { order: ORDERS[order].api };
}

/** The body of `POST /traces/query` for a page. */
export function requestBody({ filter, order, window }: SearchRequest, cursor: string | null): object {
  return {
    ...(Object.values(filter).every((list) => list.length === 0) ? {} : { filter }),
    ...window,
    ...orderArgument(order),
    view: "summary",
    limit: PAGE_SIZE,
    ...(cursor === null ? {} : { cursor }),
  };
}

/** Requests a page and yields its lines as they arrive. It ends without an error only if the page is complete. */
export async function* fetchPage(
  request: SearchRequest,
  cursor: string | null,
  signal: AbortSignal,
): AsyncGenerator<Line[]> {
  const response = await sendRequest(
    new Request(new URL("/traces/query", window.location.origin), {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/x-ndjson" },
      body: writeJson(requestBody(request, cursor), 0),
      signal,
    }),
  );
  if (!response.ok || response.body === null) {
    throw apiError(response, await response.json().catch(() => null));
  }
  let isComplete = false;
  try {
    for await (const lines of readLineBatches(response.body)) {
      yield lines;
      for (const line of lines) {
        if (line.kind === "error") {
          throw new ApiError(line.problem.status, line.problem);
        }
        isComplete ||= line.kind === "end";
      }
    }
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) {
      throw error;
    }
    // The status was successful, so that the service was reachable: the service or an intermediary aborted the connection.
    throw new StreamAborted();
  }
  if (!isComplete) {
    throw new StreamAborted();
  }
}
