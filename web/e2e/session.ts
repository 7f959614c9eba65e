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
  static async signIn(service: string, username: string, password: string): Promise<Session | null> {
    const response = await fetch(`${service}/login`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: service },
      body: JSON.stringify({ username, password }),
    });
    if (response.status === 401) {
      return null;
    }
    if (!response.ok) {
      throw new Error(`POST /login: ${response.status} ${await response.text()}`);
    }
    return new Session(service, (response.headers.get("set-cookie") ?? "").split(";")[0] ?? "");
  }

  /** Returns the response, or throws an error if the service rejects the request. */
  async call<T = unknown>(method: string, path: string, body?: unknown, tag?: string | null): Promise<T> {
    const response = await this.request(method, path, body, tag);
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${method} ${path}: ${response.status} ${text}`);
    }
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  async request(method: string, path: string, body?: unknown, tag?: string | null): Promise<Response> {
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
export async function signInOrActivate(
  service: string,
  username: string,
  firstPassword: string,
): Promise<Session> {
  const existing = await Session.signIn(service, username, OWN_PASSWORD);
  if (existing !== null) {
    return existing;
  }
  const firstSession = await Session.signIn(service, username, firstPassword);
  if (firstSession === null) {
    throw new Error(
      `${username} can sign in neither with the first password nor with the password of the tests`,
    );
  }
  await firstSession.call("POST", "/me/password", {
    current_password: firstPassword,
    new_password: OWN_PASSWORD,
  });
  const session = await Session.signIn(service, username, OWN_PASSWORD);
  if (session === null) {
    throw new Error(`${username} cannot sign in with the password just chosen`);
  }
  return session;
}
