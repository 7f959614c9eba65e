import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

/** Types of the API document, by their names there. */
export type Api = components["schemas"];

/** The API; every path, parameter and body is checked against its document. */
export const api = createClient<paths>({
  baseUrl: window.location.origin,
  // Looked up at each call, so that tests can put another in its place.
  fetch: (request) => globalThis.fetch(request),
});

/** An answer that is an error, as the service tells it. */
export class ApiError extends Error {
  readonly status: number;
  readonly problem: Api["ProblemDetails"];

  constructor(status: number, problem: Api["ProblemDetails"]) {
    super(problem.detail || problem.title);
    this.name = "ApiError";
    this.status = status;
    this.problem = problem;
  }

  get code(): string {
    return this.problem.code;
  }
}

function isProblem(body: unknown): body is Api["ProblemDetails"] {
  return typeof body === "object" && body !== null && "code" in body && "title" in body;
}

/** The error that a response with a failing status stands for, whatever its body is. */
export function apiError(response: Response, body: unknown): ApiError {
  const problem = isProblem(body)
    ? body
    : {
        type: "about:blank",
        title: response.statusText || `status ${response.status}`,
        detail: `The service answered with status ${response.status}.`,
        status: response.status,
        code: "unknown",
        request_id: response.headers.get("x-request-id") ?? "",
        retry: "unknown" as const,
      };
  return new ApiError(response.status, problem);
}

type Answer<T> = { data?: T; error?: unknown; response: Response };

/** The body of an answer.
 *
 * Throws {@link ApiError} when the service refuses, and what `fetch` throws when it cannot be reached. */
export async function ask<T>(answer: Promise<Answer<T>>): Promise<T> {
  return (await askWithTag(answer)).data;
}

/** The body of an answer with its `ETag`, for a change that must not overwrite another. */
export async function askWithTag<T>(answer: Promise<Answer<T>>): Promise<{ data: T; tag: string | null }> {
  const { data, error, response } = await answer;
  if (!response.ok) {
    // A wrong current password is no end of the session either.
    if (response.status === 401 && !(isProblem(error) && error.code === "invalid_credentials")) {
      signedOut(response);
    }
    throw apiError(response, error);
  }
  // A body that is absent, as of 204, is `undefined` in the type, too.
  return { data: data as T, tag: response.headers.get("etag") };
}

const listeners = new Set<() => void>();

/** Calls the listener when an answer shows that the session has ended. */
export function onSignedOut(listener: () => void): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

/** To be called for every answer 401 that did not go through {@link ask}. */
export function signedOut(response: Response): void {
  // A refused log-in is no end of a session.
  if (!new URL(response.url, window.location.origin).pathname.startsWith("/login")) {
    for (const listener of listeners) {
      listener();
    }
  }
}
