import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

/** Types of the OpenAPI document, by their names in it. */
export type Api = components["schemas"];

/** API client. The OpenAPI document determines the types of paths, parameters and bodies. */
export const api = createClient<paths>({
  baseUrl: window.location.origin,
  // Looked up on each call, so that tests can replace it.
  fetch: (request) => globalThis.fetch(request),
});

/** An error response of the service. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Api["ProblemDetails"],
  ) {
    super(problem.detail || problem.title);
    this.name = "ApiError";
  }

  get code(): string {
    return this.problem.code;
  }
}

function isProblem(body: unknown): body is Api["ProblemDetails"] {
  return typeof body === "object" && body !== null && "code" in body && "title" in body;
}

export const hasStatus = (error: unknown, status: number): boolean =>
  error instanceof ApiError && error.status === status;

/** Header parameter of a change that applies only to the version with this ETag, if any. */
export const ifMatch = (etag: string | null) => (etag === null ? {} : { header: { "If-Match": etag } });

/** Converts a response with an error status into an error, whatever its body is. */
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

/** Data with its ETag, for a conditional change. */
export type WithEtag<T> = { data: T; etag: string | null };

type FetchResult<T> = { data?: T; error?: unknown; response: Response };

/** Returns the body of a response.
 *
 * Throws {@link ApiError} if the service returns an error, and the errors of `fetch` if the service is unreachable. */
export async function unwrap<T>(request: Promise<FetchResult<T>>): Promise<T> {
  return (await unwrapWithEtag(request)).data;
}

/** Returns the body of a response with its `ETag`. */
export async function unwrapWithEtag<T>(request: Promise<FetchResult<T>>): Promise<WithEtag<T>> {
  const { data, error, response } = await request;
  if (!response.ok) {
    // A wrong current password does not end the session.
    if (response.status === 401 && !(isProblem(error) && error.code === "invalid_credentials")) {
      handleUnauthorized(response);
    }
    throw apiError(response, error);
  }
  // For an absent body, as of status 204, the type is `undefined` as well.
  return { data: data as T, etag: response.headers.get("etag") };
}

let signedOutListener = () => {};

/** Sets the function that is called when a response shows that the session has ended. */
export function onSignedOut(listener: () => void): void {
  signedOutListener = listener;
}

/** Must be called for every response with status 401 that does not go through {@link unwrap}. */
export function handleUnauthorized(response: Response): void {
  // A failed sign-in does not end a session.
  if (!new URL(response.url, window.location.origin).pathname.startsWith("/login")) {
    signedOutListener();
  }
}
