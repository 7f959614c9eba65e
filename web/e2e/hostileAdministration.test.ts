import { randomUUID } from "node:crypto";
import type { Locator } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { environment } from "./environment";
import { areTexts, foreignRequests } from "./hostile";
import { callTool } from "./mcp";
import { at, gone, logIn, quiet, shown } from "./pages";
import { EVERYTHING, ensureSetUp, markBesides, person } from "./service";
import type { Session } from "./session";

const { url: service, storeUrl, storePassword } = environment();

/** Contains no slash, so that it is also a valid user name. */
const MARKUP = "<img src=x onerror=window.hostile=true>";
const SCRIPT = "<script>window.hostile = true</script>";
const TURNED = "invoice\u202efdp.exe";
const ISOLATES = "\u2066admin\u2069 \u2067user \u202b\u202a";

/** The same text as in labels, which cannot contain elements. */
const TURNED_LABEL = "invoice⟨U+202E⟩fdp.exe";
const FIELD = `SpanAttributes["${TURNED_LABEL}"]`;
const ISOLATES_FIELD = 'SpanAttributes["⟨U+2066⟩admin⟨U+2069⟩ ⟨U+2067⟩user ⟨U+202B⟩⟨U+202A⟩"]';

/** The service rejects user names with invisible characters. */
const MEMBER = '"><svg onload=window.hostile=true>';
const MEMBER_PATH = `/users/${encodeURIComponent(MEMBER)}`;
/** Role names have a restricted character set; titles and expressions of policies do not. */
const ROLE = "hostile-texts";
const POLICIES = [
  { title: SCRIPT, description: `${TURNED} ${MARKUP}`, expression: `SpanName == "${TURNED}"` },
  { title: MARKUP, expression: `SpanAttributes["${TURNED}"] == user.attributes.team` },
];

/** An administrator who sees every trace: sampled values are shown only from spans that the administrator may read. */
const ALL_SEEING = "administering-hostile-texts";
/** An administrator who sees no traces. */
const BLIND = "administering-only";

const TABLE = "database=otel&table=otel_traces";

let admin: Session;
let trace: string;
let visit: Visitor;
let foreign: readonly string[];

beforeAll(async () => {
  trace = await storeTrace();
  admin = await ensureSetUp();
  const marked = { map: "SpanAttributes", type: "string", filterable: true, policy: true };
  const unmark = await markBesides(
    admin,
    [TURNED, MARKUP].map((name) => ({ ...marked, name })),
  );
  await admin.call("PUT", `/roles/${ROLE}`, { policies: POLICIES });
  // In an object literal, `__proto__` would set the prototype.
  const attributes = Object.fromEntries([
    ["__proto__", [TURNED, MARKUP]],
    ["team", TURNED],
  ]);
  const holder = await person(admin, MEMBER, [ROLE], attributes);
  await readAsAgent(holder);
  await person(admin, ALL_SEEING, ["admin", EVERYTHING]);
  await person(admin, BLIND, ["admin"]);
  visit = await visitor("administering hostile texts");
  foreign = foreignRequests(visit.page);
  await logIn(visit.page, ALL_SEEING);
  // Tests in other files list users, roles and fields, and do not expect these.
  return async () => {
    await admin.call("DELETE", MEMBER_PATH);
    await admin.call("DELETE", `/roles/${ROLE}`);
    await unmark();
  };
});

/** Stores a trace that has these texts as service names too, unlike the other hostile trace. It is too old to be among the newest
 * traces, and new enough for a sample of the last hour. */
async function storeTrace(): Promise<string> {
  const id = randomUUID().replaceAll("-", "");
  const literal = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const spanId = (place: number) => literal(place === 0 ? "" : String(place).padStart(16, "0"));
  const attributes = [MARKUP, SCRIPT, TURNED, ISOLATES].flatMap((text) => [text, text]);
  const spans = [
    { service: MARKUP, name: SCRIPT },
    { service: TURNED, name: TURNED },
    { service: "__proto__", name: ISOLATES },
  ].map(({ service, name }, place) => {
    const columns = [
      "now64(9) - 2700",
      literal(id),
      spanId(place + 1),
      spanId(place === 0 ? 0 : 1),
      literal(name),
      "'Server'",
      literal(service),
      "1000000",
      "'Unset'",
      `map(${attributes.map(literal).join(", ")})`,
    ];
    // Two columns with the same text would have the same name.
    return `SELECT ${columns.map((column, at) => `${column} AS c${at}`).join(", ")}`;
  });
  const answer = await fetch(`${storeUrl}/`, {
    method: "POST",
    headers: { "X-ClickHouse-User": "default", "X-ClickHouse-Key": storePassword },
    body:
      "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, " +
      `Duration, StatusCode, SpanAttributes) ${spans.join(" UNION ALL ")}`,
  });
  if (!answer.ok) {
    throw new Error(
      `the trace could not be inserted into ClickHouse: ${answer.status} ${await answer.text()}`,
    );
  }
  return id;
}

/** Creates audit records with the names that a user chooses for a key and a client, and with requested values. */
async function readAsAgent(holder: Session): Promise<void> {
  const { token } = await holder.call<{ token: string }>("POST", "/me/api-keys", { name: MARKUP });
  const call = {
    name: "svc_query_traces",
    arguments: { conditions: [{ name: "SpanName", op: "eq", value: TURNED }], last: "1d" },
  };
  const server = { url: `${service}/mcp`, headers: { Authorization: `Bearer ${token}` } };
  await callTool(server, call, { name: MARKUP, version: "1.0" });
}

const open = async (path: string) => {
  await visit.page.goto(at(path));
  await quiet(visit.page);
};

/** Waits for the texts first: absent texts would pass every check. */
const harmless = (...texts: [Locator, ...Locator[]]) => areTexts(visit.page, foreign, ...texts);

const turned = (within: Locator) => within.getByText("U+202E", { exact: true });
const markup = (within: Locator) => within.getByText(MARKUP);
const script = (within: Locator) => within.getByText(SCRIPT);
const member = (within: Locator) => within.getByText(MEMBER);

describe("the trace source shows as text", () => {
  const fields = () => visit.page.getByRole("table", { name: "Fields" });
  const find = (text: string) => visit.page.getByRole("textbox", { name: "Search fields" }).fill(text);

  test("marked keys, and examples of their values", async () => {
    const { page } = visit;
    await open("/source");
    await find("onerror");
    await harmless(markup(fields()));
    await find("fdp.exe");
    await harmless(turned(fields()));
    await page.getByRole("button", { name: "Find more fields" }).click();
    await quiet(page);
    await fields()
      .getByRole("button", { name: /^Examples of SpanAttributes\["invoice/ })
      .click();
    await harmless(turned(page.getByRole("dialog").filter({ hasText: "Values found in the sample" })));
  });

  test("keys of a sample, and unsaved changes", async () => {
    const { page } = visit;
    await open(`/source/setup?step=fields&${TABLE}`);
    await find("admin");
    await page.getByRole("checkbox", { name: `${ISOLATES_FIELD} searchable` }).check();
    await page.getByRole("button", { name: /^1 change not saved/ }).click();
    const unsaved = page.getByRole("table", { name: "Changes that are not saved" });
    await harmless(
      fields().getByText("U+2066", { exact: true }),
      unsaved.getByText("U+2066", { exact: true }),
    );
    await page.getByRole("button", { name: "Discard changes" }).click();
  });

  test("policies that a change of fields would break", async () => {
    const { page } = visit;
    await open("/source");
    await find("fdp.exe");
    await page.getByRole("checkbox", { name: `${FIELD} usable in policies` }).uncheck();
    await page.getByRole("button", { name: "Save changes" }).click();
    await harmless(
      markup(page.getByRole("alert").filter({ hasText: "The fields were not saved" })),
      turned(fields().getByRole("alert")),
    );
    await page.getByRole("button", { name: "Discard changes" }).click();
  });

  test("fields and values for a first role", async () => {
    const { page } = visit;
    await open(`/source/setup?step=role&${TABLE}`);
    await page.getByRole("combobox", { name: "Field", exact: true }).click();
    const field = page.getByRole("option", { name: FIELD, exact: true });
    await harmless(field);
    await field.click();
    await quiet(page);
    await page.getByRole("combobox", { name: "Values", exact: true }).click();
    const value = page.getByRole("option", { name: TURNED_LABEL, exact: true });
    await harmless(value);
    await value.click();
    await page.keyboard.press("Escape");
    await harmless(
      turned(page.locator(".mantine-Pill-root")),
      turned(page.getByRole("textbox", { name: "Policy", exact: true })),
    );
  });

  test("suggested additions to the table", async () => {
    const { page } = visit;
    await open("/source?tab=speed");
    const column = page.getByRole("button").filter({ hasText: /Key column for SpanAttributes\["invoice/ });
    await harmless(turned(column));
    await column.click();
    await harmless(turned(page.locator("pre").filter({ hasText: "fdp.exe" })));
  });
});

describe("roles show as text", () => {
  const policy = (number: number) =>
    visit.page.getByRole("region", { name: `Policy ${number}`, exact: true });
  const expression = (number: number) => policy(number).getByRole("textbox", { name: "Expression" });

  test("titles, expressions and members", async () => {
    const { page } = visit;
    await open("/roles");
    await harmless(script(page.getByRole("table", { name: "Roles" })));
    await open(`/roles/${ROLE}`);
    await harmless(
      turned(expression(1)),
      turned(expression(2)),
      // The field that the expression reads.
      turned(policy(2).locator(".mantine-Badge-root")),
      member(page.getByRole("list", { name: "Members" })),
    );
    expect(await policy(1).getByRole("textbox", { name: "Title" }).inputValue()).toBe(SCRIPT);
  });

  test("spans that policies are tested with", { timeout: 120_000 }, async () => {
    const { page } = visit;
    const trial = page.getByRole("region", { name: "Test", exact: true });
    await open(`/roles/${ROLE}`);
    await trial.getByText("one trace", { exact: true }).click();
    await trial.getByRole("textbox", { name: "Trace id" }).fill(trace);
    await trial.getByRole("button", { name: "Run test" }).click();
    const spans = trial.getByRole("table", { name: `Spans of trace ${trace}` });
    await harmless(
      turned(spans),
      script(spans),
      markup(spans),
      spans.getByText("__proto__", { exact: true }),
    );
    await spans.getByRole("button", { name: `${TURNED_LABEL}: decisive parts` }).click();
    await harmless(turned(spans.locator("pre")));
  });

  test("values of collateral access", { timeout: 120_000 }, async () => {
    const { page } = visit;
    const section = page.getByRole("region", { name: "Collateral access" });
    await open(`/roles/${ROLE}`);
    await section.getByText("24 h", { exact: true }).click();
    await section.getByRole("combobox", { name: "Field" }).click();
    await harmless(page.getByRole("option", { name: FIELD, exact: true }));
    await page.getByRole("option", { name: "SpanName", exact: true }).click();
    await section.getByRole("button", { name: "Count", exact: true }).click();
    await shown(section.getByText("Counting read"), 60_000);
    await section.getByRole("button", { name: /^Show all/ }).click();
    const values = section.getByRole("table", { name: "Values that become visible" });
    await harmless(turned(values), script(values), values.getByText("U+2066", { exact: true }));
  });

  test("the impact of a changed role, and its collateral access", { timeout: 120_000 }, async () => {
    const { page } = visit;
    await open(`/roles/${ROLE}`);
    await expression(1).click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(`SpanName == "${TURNED}" && ServiceName == "${TURNED}"`);
    await page.getByRole("button", { name: "Review and save" }).click();
    const review = page.getByRole("dialog", { name: `Review the changes of ${ROLE}` });
    await shown(review.getByRole("heading", { name: "Role in isolation" }), 60_000);
    // Values of the service, which is the default field.
    const values = review.getByRole("table", { name: "Values that become visible" });
    await harmless(
      turned(review.getByRole("region", { name: "Policy changed" })),
      member(review.getByRole("table", { name: "Users whose access was compared" })),
      markup(values),
      turned(values),
    );
    await review.getByRole("button", { name: "Back" }).click();
    await gone(review);
  });

  test("diagnostics of an expression, and their fixes", async () => {
    const { page } = visit;
    await open("/new-role");
    await page.getByRole("button", { name: "Add a policy" }).click();
    const editor = page.getByRole("textbox", { name: "Expression" });
    await editor.click();
    await page.keyboard.insertText(`SpanAttributes["${TURNED.replace(".", "_")}"] == "a"`);
    const remarks = page.getByRole("list", { name: "Diagnostics for Expression" });
    await harmless(turned(remarks), remarks.getByRole("button", { name: `Replace with ${FIELD}` }));
    // The editor's tooltip shows the same text at the pointer.
    await editor.locator(".cm-lintRange-error").first().hover();
    await harmless(page.locator(".cm-tooltip-lint").getByText("⟨U+202E⟩"));
  });
});

describe("users show as text", () => {
  test("names, attributes, policies and keys", async () => {
    const { page } = visit;
    await open("/users");
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: MEMBER, exact: true }) });
    await harmless(turned(row), markup(row));
    await open(MEMBER_PATH);
    const access = page.getByRole("region", { name: "Effective access" });
    await harmless(
      page.getByRole("heading", { name: MEMBER, level: 1 }),
      turned(page.getByRole("region", { name: "Roles and attributes" })),
      script(access),
      turned(access.locator("pre")),
      turned(access.getByRole("table", { name: "Attributes that it reads" })),
      markup(page.getByRole("region", { name: "API keys" })),
    );
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    const question = page.getByRole("dialog", { name: `Delete ${MEMBER}?` });
    await harmless(question.getByText(`Type ${MEMBER} to confirm`));
    await question.getByRole("button", { name: "Cancel" }).click();
    await gone(question);
  });
});

describe("the access to a trace shows as text", () => {
  test("users who have it, and why another user has it", async () => {
    const { page } = visit;
    await open(`/trace/${trace}?why=viewers`);
    const viewers = page.getByRole("list", { name: "Users who can see this trace" });
    await harmless(
      member(viewers),
      script(viewers),
      markup(viewers),
      turned(page.getByRole("treegrid", { name: "Spans" })),
    );
    await viewers.getByRole("button", { name: `Explain for ${MEMBER}` }).click();
    const panel = page.getByRole("region", { name: "Who sees this, and why" });
    await shown(panel.getByText("Access granted", { exact: true }));
    await harmless(
      member(panel),
      script(panel),
      markup(panel),
      turned(panel.locator("pre")),
      // The link to a matching span.
      turned(panel.getByRole("button").filter({ hasText: "fdp.exe" })),
    );
  });

  test("to an administrator without access", async () => {
    const { context, page } = await visitor("administering hostile texts alone");
    const asked = foreignRequests(page);
    await logIn(page, BLIND);
    await page.goto(at(`/trace/${trace}?why=user&user=${encodeURIComponent(MEMBER)}`));
    await quiet(page);
    await shown(page.getByText("Counts only"));
    const main = page.getByRole("main");
    await areTexts(page, asked, member(main), script(main), markup(main), turned(main.locator("pre")));
    await context.close();
  });
});

describe("a search shows as text", () => {
  test("conditions on such fields, and results", async () => {
    const { page } = visit;
    await open(`/search?last=24h&where=${encodeURIComponent(`${TURNED} = ${TURNED}`)}`);
    await harmless(
      turned(page.getByRole("button", { name: /^Edit condition/ })),
      script(page.getByRole("table", { name: "Traces found" })),
    );
  });

  test("errors in the conditions of a link", async () => {
    const { page } = visit;
    await open(`/search?last=24h&where=${encodeURIComponent("no\u202esuch = 1")}`);
    await harmless(turned(page.getByRole("alert").filter({ hasText: "cannot be run as it is" })));
    await page.getByRole("button", { name: /^Edit condition/ }).click();
    await harmless(page.getByRole("alert").filter({ hasText: "no⟨U+202E⟩such" }));
  });
});

describe("the model history shows as text", () => {
  test("changes of fields and roles, and the plan of a restore", { timeout: 120_000 }, async () => {
    const { page } = visit;
    const { changes } = await admin.call<{
      changes: { version: number; action: string; target?: string }[];
    }>("GET", "/schema/history");
    const versionOf = (action: string, target?: string) =>
      changes.find((one) => one.action === action && one.target === target)?.version;
    const changed = page.getByRole("region", { name: "Changes in this version" });
    await open("/history");
    await harmless(turned(page.getByRole("table", { name: "Changes" })));
    await open(`/history/${versionOf("role.put", ROLE)}`);
    await harmless(turned(changed), script(changed), markup(changed));
    await open(`/history/${versionOf("schema.put_fields")}`);
    await harmless(turned(changed), markup(changed));
    await page.getByRole("button", { name: "Restore this version" }).click();
    const question = page.getByRole("dialog", { name: /^Restore version/ });
    await shown(question.getByRole("heading", { name: "Differences" }), 60_000);
    await harmless(
      member(question.getByRole("alert").filter({ hasText: "Users lose a role" })),
      member(question.getByRole("table", { name: "Users whose access was compared" })),
      turned(question),
      script(question),
    );
    await question.getByRole("button", { name: "Cancel" }).click();
    await gone(question);
  });
});

describe("the audit log shows as text", () => {
  /** Opens the newest record whose row contains all of the texts. */
  async function openRecord(query: string, ...texts: string[]): Promise<{ row: Locator; details: Locator }> {
    const { page } = visit;
    await open(`/audit?from=24h&outcome=success&${query}`);
    const row = texts
      .reduce((rows, text) => rows.filter({ hasText: text }), page.getByRole("row"))
      .filter({ has: page.getByRole("button", { name: /open the record/ }) })
      .first();
    await row.getByRole("button", { name: /open the record/ }).click();
    return { row, details: page.getByLabel("Details as JSON") };
  }

  test("the actor, the client and the requested values of a read", async () => {
    const actor = encodeURIComponent(MEMBER);
    const { row, details } = await openRecord(`action=traces.query&actor=${actor}`, "svc_query_traces");
    const record = visit.page.getByRole("table", { name: "The record" });
    await harmless(
      member(row),
      markup(row),
      member(record),
      record.getByRole("row", { name: /^MCP client/ }).getByText(MARKUP),
      turned(details),
    );
    const made = await openRecord(`action=api_key.create&actor=${actor}`, MARKUP);
    await harmless(markup(made.row), markup(made.details));
  });

  test("changes", async () => {
    const user = await openRecord("action=user.create", MEMBER);
    await harmless(member(user.row), turned(user.details), markup(user.details));
    const role = await openRecord("action=role.put", ROLE);
    await harmless(turned(role.details), script(role.details), markup(role.details));
    const marks = await openRecord("action=schema.put_fields");
    await harmless(turned(marks.details), markup(marks.details));
  });
});

describe("a preview shows as text", () => {
  test("the previewed user, and the policies that grant access", async () => {
    const { page } = visit;
    await open(MEMBER_PATH);
    await page.getByRole("button", { name: "View as" }).click();
    await page.waitForURL("**/ui/search**");
    await quiet(page);
    const bar = page.getByRole("status").filter({ hasText: "You see traces as" });
    await harmless(member(bar));
    await open(`/trace/${trace}`);
    await harmless(
      member(bar),
      turned(page.getByRole("treegrid", { name: "Spans" })),
      script(page.getByRole("button", { name: /^Why do I see this\?/ })),
    );
    await page.getByRole("button", { name: "End preview" }).click();
    await gone(bar);
  });
});
