import { environment } from "./environment";
import { OWN_PASSWORD, Session, signInOrActivate } from "./session";

const { url, adminPassword } = environment();

export const READER = "reader";

/** A role that grants access to every trace. */
export const EVERYTHING = "everything";

export const administrator = (): Promise<Session> => signInOrActivate(url, "admin", adminPassword);

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

/** Sets up the service through the API unless the setup test has already done it, so that each test file can run alone. */
export async function ensureSetUp(): Promise<Session> {
  const admin = await administrator();
  const response = await admin.request("GET", "/schema");
  let model: Model = { binding: null, fields: [] };
  let tag = response.headers.get("etag");
  if (response.ok) {
    model = (await response.json()) as Model;
  }
  if (model.binding === null || model.binding === undefined) {
    const { tables } = await admin.call<{ tables: { database: string; name: string; proposal: unknown }[] }>(
      "GET",
      "/schema/tables",
    );
    const table = tables.find(({ database, name }) => database === "otel" && name === "otel_traces");
    const boundTable = await admin.request("PUT", "/schema/binding", table?.proposal, tag);
    if (!boundTable.ok) {
      throw new Error(`PUT /schema/binding: ${boundTable.status} ${await boundTable.text()}`);
    }
    tag = (await admin.request("GET", "/schema")).headers.get("etag");
  }
  // Adds all fields that the tests search by to those that the setup test defined.
  const marked = new Map<string, unknown>();
  for (const field of [...model.fields, ...FIELDS] as { map?: string; name: string }[]) {
    marked.set(`${field.map ?? ""} ${field.name}`, field);
  }
  await admin.call("PUT", "/schema/fields", { fields: [...marked.values()].map(toMark) }, tag);
  await admin.call("PUT", `/roles/${EVERYTHING}`, {
    policies: [{ title: "Every trace", expression: "true" }],
  });
  await ensureUser(admin, READER, [EVERYTHING]);
  return admin;
}

interface Mark {
  map?: string;
  name: string;
  type: string;
  filterable: boolean;
  policy: boolean;
}

/** Adds field definitions to the existing ones. Returns a function that removes them. */
export async function markFields(admin: Session, fields: readonly Mark[]): Promise<() => Promise<void>> {
  const nameOf = ({ map, name }: Pick<Mark, "map" | "name">) => `${map ?? ""} ${name}`;
  const ownKeys = new Set(fields.map(nameOf));
  const putFields = async (addedFields: readonly Mark[]) => {
    const response = await admin.request("GET", "/schema");
    const { fields: marked } = (await response.json()) as { fields: Mark[] };
    const otherFields = marked.filter((field) => !ownKeys.has(nameOf(field)));
    const all = [...otherFields, ...addedFields].map(toMark);
    await admin.call("PUT", "/schema/fields", { fields: all }, response.headers.get("etag"));
  };
  await putFields(fields);
  return () => putFields([]);
}

/** Creates a user with a changed password. */
export async function ensureUser(
  admin: Session,
  username: string,
  roles: string[],
  attributes: Record<string, unknown> = {},
): Promise<Session> {
  const ownKeys = await Session.signIn(url, username, OWN_PASSWORD);
  if (ownKeys !== null) {
    return ownKeys;
  }
  const { initial_password } = await admin.call<{ initial_password: string }>("POST", "/users", {
    username,
    roles,
    attributes,
  });
  return signInOrActivate(url, username, initial_password);
}

/** The properties of a field that may be sent back. */
function toMark(field: unknown): unknown {
  const { map, name, type, filterable, policy, column } = field as Record<string, unknown>;
  return { ...(map ? { map } : {}), name, type, filterable, policy, ...(column ? { column } : {}) };
}
