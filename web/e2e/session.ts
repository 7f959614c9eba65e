/** Password that all users, including `admin`, set in place of the generated one. */
export const OWN_PASSWORD = "one that only its owner knows";

/** A signed-in API client. */
export class Session {
  readonly #service: string;
  readonly #cookie: string;

  private constructor(service: string, cookie: string) {
    this.#service = service;
    this.#cookie = cookie;
  }

  /** Returns `null` if the user name or password is wrong. */
  static async logIn(service: string, username: string, password: string): Promise<Session | null> {
    const answer = await fetch(`${service}/login`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: service },
      body: JSON.stringify({ username, password }),
    });
    if (answer.status === 401) {
      return null;
    }
    if (!answer.ok) {
      throw new Error(`POST /login: ${answer.status} ${await answer.text()}`);
    }
    return new Session(service, (answer.headers.get("set-cookie") ?? "").split(";")[0] ?? "");
  }

  /** Returns the response, or throws an error if the service rejects the request. */
  async call<T = unknown>(method: string, path: string, body?: unknown, tag?: string | null): Promise<T> {
    const answer = await this.ask(method, path, body, tag);
    const text = await answer.text();
    if (!answer.ok) {
      throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    }
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  async ask(method: string, path: string, body?: unknown, tag?: string | null): Promise<Response> {
    return fetch(`${this.#service}${path}`, {
      method,
      headers: {
        cookie: this.#cookie,
        origin: this.#service,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(tag === undefined || tag === null ? {} : { "if-match": tag }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }
}

/** Signs in with the changed password. At the first sign-in, changes the generated password. */
export async function takeAccount(service: string, username: string, first: string): Promise<Session> {
  const own = await Session.logIn(service, username, OWN_PASSWORD);
  if (own !== null) {
    return own;
  }
  const fresh = await Session.logIn(service, username, first);
  if (fresh === null) {
    throw new Error(
      `${username} can sign in neither with the first password nor with the password of the tests`,
    );
  }
  await fresh.call("POST", "/me/password", { current_password: first, new_password: OWN_PASSWORD });
  const session = await Session.logIn(service, username, OWN_PASSWORD);
  if (session === null) {
    throw new Error(`${username} cannot sign in with the password just chosen`);
  }
  return session;
}
