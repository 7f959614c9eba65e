import { environment } from "./environment";

const { url, adminPassword } = environment();

/** What `admin` and everybody else changes the generated password to. */
export const OWN_PASSWORD = "one that only its owner knows";

export const READER = "reader";

/** A role that opens every trace. */
export const EVERYTHING = "everything";

/** Somebody who is logged in, as a script would be. */
export class Session {
  private constructor(private readonly cookie: string) {}

  static async logIn(username: string, password: string): Promise<Session | null> {
    const answer = await fetch(`${url}/login`, {
      method: "POST",
      headers: { "content-type": "application/json", origin: url },
      body: JSON.stringify({ username, password }),
    });
    if (answer.status === 401) {
      return null;
    }
    if (!answer.ok) {
      throw new Error(`POST /login: ${answer.status} ${await answer.text()}`);
    }
    return new Session((answer.headers.get("set-cookie") ?? "").split(";")[0] ?? "");
  }

  /** The answer, or an error when the service refuses. */
  async call<T = unknown>(method: string, path: string, body?: unknown, tag?: string | null): Promise<T> {
    const answer = await this.ask(method, path, body, tag);
    const text = await answer.text();
    if (!answer.ok) {
      throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    }
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  async ask(method: string, path: string, body?: unknown, tag?: string | null): Promise<Response> {
    return fetch(`${url}${path}`, {
      method,
      headers: {
        cookie: this.cookie,
        origin: url,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
        ...(tag === undefined || tag === null ? {} : { "if-match": tag }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  }
}

/** Logs in with the password of one's own; at the first log-in, chooses it. */
async function withOwnPassword(username: string, first: string): Promise<Session> {
  const own = await Session.logIn(username, OWN_PASSWORD);
  if (own !== null) {
    return own;
  }
  const fresh = await Session.logIn(username, first);
  if (fresh === null) {
    throw new Error(`${username} can log in neither with the first password nor with the tests' own`);
  }
  await fresh.call("POST", "/me/password", { current_password: first, new_password: OWN_PASSWORD });
  const session = await Session.logIn(username, OWN_PASSWORD);
  if (session === null) {
    throw new Error(`${username} cannot log in with the password just chosen`);
  }
  return session;
}

export const administrator = (): Promise<Session> => withOwnPassword("admin", adminPassword);

interface Model {
  binding: unknown;
  fields: unknown[];
}

/** Fields that every test may search by. */
export const FIELDS = [
  { name: "ServiceName", type: "string", filterable: true, policy: true },
  { name: "SpanName", type: "string", filterable: true, policy: true },
  { name: "StatusCode", type: "string", filterable: true, policy: true },
  { name: "Duration", type: "number", filterable: true, policy: false },
  { name: "Timestamp", type: "number", filterable: true, policy: false },
  { name: "Events.Name", type: "string_array", filterable: true, policy: true },
  { map: "SpanAttributes", name: "tenant.id", type: "string", filterable: true, policy: true },
  { map: "SpanAttributes", name: "http.route", type: "string", filterable: true, policy: true },
  {
    map: "SpanAttributes",
    name: "http.response.status_code",
    type: "number",
    filterable: true,
    policy: false,
  },
  { map: "SpanAttributes", name: "app.order.express", type: "boolean", filterable: true, policy: true },
  { map: "ResourceAttributes", name: "team", type: "string", filterable: true, policy: true },
];

/** Does through the API what setting up by hand would, where it was not done: each file of tests can run alone. */
export async function ensureSetUp(): Promise<Session> {
  const admin = await administrator();
  const answer = await admin.ask("GET", "/schema");
  let model: Model = { binding: null, fields: [] };
  let tag = answer.headers.get("etag");
  if (answer.ok) {
    model = (await answer.json()) as Model;
  }
  if (model.binding === null || model.binding === undefined) {
    const { tables } = await admin.call<{ tables: { database: string; name: string; proposal: unknown }[] }>(
      "GET",
      "/schema/tables",
    );
    const table = tables.find(({ database, name }) => database === "otel" && name === "otel_traces");
    const bound = await admin.ask("PUT", "/schema/binding", table?.proposal, tag);
    if (!bound.ok) {
      throw new Error(`PUT /schema/binding: ${bound.status} ${await bound.text()}`);
    }
    tag = (await admin.ask("GET", "/schema")).headers.get("etag");
  }
  // All that tests filter by, whatever was marked by hand.
  const marked = new Map<string, unknown>();
  for (const field of [...model.fields, ...FIELDS] as { map?: string; name: string }[]) {
    marked.set(`${field.map ?? ""} ${field.name}`, field);
  }
  await admin.call("PUT", "/schema/fields", { fields: [...marked.values()].map(asMarked) }, tag);
  await admin.call("PUT", `/roles/${EVERYTHING}`, {
    policies: [{ title: "Every trace", expression: 'ServiceName.startsWith("")' }],
  });
  await person(admin, READER, [EVERYTHING]);
  return admin;
}

/** A user with that name and a password of their own. */
export async function person(
  admin: Session,
  username: string,
  roles: string[],
  attributes: Record<string, unknown> = {},
): Promise<Session> {
  const own = await Session.logIn(username, OWN_PASSWORD);
  if (own !== null) {
    return own;
  }
  const { initial_password } = await admin.call<{ initial_password: string }>("POST", "/users", {
    username,
    roles,
    attributes,
  });
  return withOwnPassword(username, initial_password);
}

/** The members of a marked field that may be sent back. */
function asMarked(field: unknown): unknown {
  const { map, name, type, filterable, policy, column } = field as Record<string, unknown>;
  return { ...(map ? { map } : {}), name, type, filterable, policy, ...(column ? { column } : {}) };
}
