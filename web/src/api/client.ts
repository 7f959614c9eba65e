import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

/** Types of the OpenAPI document, by their names in it. */
export type Api = components["schemas"];

/** API client. The OpenAPI document determines the types of paths, parameters and bodies. */
export const api = createClient<paths>({
  baseUrl: window.location.origin,
  fetch: (request) => sendRequest(request),
});

/** Why the page can no longer send requests as its user: the session has ended, or another user signed in in another window. */
export type SessionEnd = "ended" | "other-user";

/** The user whose page this is, and what to do when a response shows that the session is no longer that user's: the promise tells
 * whether the user has signed in again. */
let session: {
  userId: () => string | undefined;
  /** Number of times that the user has signed in again. */
  resumes: () => number;
  resumed: (end: SessionEnd) => Promise<boolean>;
} = {
  userId: () => undefined,
  resumes: () => 0,
  resumed: () => Promise.resolve(false),
};

export function connectSession(next: typeof session): void {
  session = next;
}

/** Sends a request as the user whose page this is. The service refuses it if the browser's cookie is of another user. If the session
 * has ended, the request waits until the user has signed in again, and nothing that it would save is lost. */
export async function sendRequest(request: Request): Promise<Response> {
  const userId = session.userId();
  const path = new URL(request.url).pathname;
  if (userId === undefined || path === "/login") {
    return globalThis.fetch(request);
  }
  request.headers.set("Tracewarden-User", userId);
  const repeated = request.clone();
  const resumes = session.resumes();
  const response = await globalThis.fetch(request);
  const end = await sessionEndOf(response);
  const isSameUser = () => session.userId() === userId;
  // To sign out, no session is needed. A late response to the page's former user concerns only that user.
  if (end === null || path === "/logout" || !isSameUser()) {
    return response;
  }
  // If the user has signed in again meanwhile, nothing is asked.
  const isResumed = session.resumes() !== resumes || (await session.resumed(end));
  return isResumed && isSameUser() ? sendRequest(repeated) : response;
}

async function sessionEndOf(response: Response): Promise<SessionEnd | null> {
  if (response.status !== 401 && response.status !== 412) {
    return null;
  }
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => null);
  const code = isProblem(body) ? body.code : "";
  if (response.status === 412) {
    return code === "user_mismatch" ? "other-user" : null;
  }
  // A wrong current password does not end the session.
  return code === "invalid_credentials" ? null : "ended";
}

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
  error instanceof ApiError && error.status === status && error.code !== "user_mismatch";

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
    throw apiError(response, error);
  }
  // For an absent body, as of status 204, the type is `undefined` as well.
  return { data: data as T, etag: response.headers.get("etag") };
}
