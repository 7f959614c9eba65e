import { randomUUID } from "node:crypto";
import type { Locator } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { expectPlainTexts, foreignRequests } from "./hostile";
import { callTool } from "./mcp";
import { pagePath, signIn, waitUntilDetached, waitUntilIdle, waitUntilVisible } from "./pages";
import { EVERYTHING, ensureSetUp, ensureUser, markFields } from "./service";
import type { Session } from "./session";

const { url: service, clickhouseUrl, clickhousePassword } = environment();

/** Contains no slash, so that it is also a valid user name. */
const MARKUP = "<img src=x onerror=window.hostile=true>";
const SCRIPT = "<script>window.hostile = true</script>";
const BIDI_TEXT = "invoice\u202efdp.exe";
const ISOLATE_CONTROLS = "\u2066admin\u2069 \u2067user \u202b\u202a";

/** The same text as in labels, which cannot contain elements. */
const BIDI_LABEL = "invoice⟨U+202E⟩fdp.exe";
const BIDI_FIELD = `SpanAttributes["${BIDI_LABEL}"]`;
const ISOLATE_CONTROLS_FIELD = 'SpanAttributes["⟨U+2066⟩admin⟨U+2069⟩ ⟨U+2067⟩user ⟨U+202B⟩⟨U+202A⟩"]';

/** The service rejects user names with invisible characters. */
const MEMBER = '"><svg onload=window.hostile=true>';
const MEMBER_PATH = `/users/${encodeURIComponent(MEMBER)}`;
/** Role names have a restricted character set; titles and expressions of policies do not. */
const ROLE = "hostile-texts";
const POLICIES = [
  { title: SCRIPT, description: `${BIDI_TEXT} ${MARKUP}`, expression: `SpanName == "${BIDI_TEXT}"` },
  { title: MARKUP, expression: `SpanAttributes["${BIDI_TEXT}"] == user.attributes.team` },
];

/** An administrator who sees every trace: sampled values are shown only from spans that the administrator may read. */
const ADMIN_WITH_ACCESS = "administering-hostile-texts";
/** An administrator who sees no traces. */
const ADMIN_WITHOUT_ACCESS = "administering-only";

const TABLE_PARAMS = "database=otel&table=otel_traces";

let admin: Session;
let trace: string;
let visitor: Visitor;
let foreignUrls: readonly string[];

beforeAll(async () => {
  trace = await storeTrace();
  admin = await ensureSetUp();
  const settings = { map: "SpanAttributes", type: "string", filterable: true, policy: true };
  const restoreFields = await markFields(
    admin,
    [BIDI_TEXT, MARKUP].map((name) => ({ ...settings, name })),
  );
  await admin.call("PUT", `/roles/${ROLE}`, { policies: POLICIES });
  // In an object literal, `__proto__` would set the prototype.
  const attributes = Object.fromEntries([
    ["__proto__", [BIDI_TEXT, MARKUP]],
    ["team", BIDI_TEXT],
  ]);
  const memberSession = await ensureUser(admin, MEMBER, [ROLE], attributes);
  await readAsAgent(memberSession);
  await ensureUser(admin, ADMIN_WITH_ACCESS, ["admin", EVERYTHING]);
  await ensureUser(admin, ADMIN_WITHOUT_ACCESS, ["admin"]);
  visitor = await newVisitor("administering hostile texts");
  foreignUrls = foreignRequests(visitor.page);
  await signIn(visitor.page, ADMIN_WITH_ACCESS);
  // Tests in other files list users, roles and fields, and do not expect these.
  return async () => {
    await admin.call("DELETE", MEMBER_PATH);
    await admin.call("DELETE", `/roles/${ROLE}`);
    await restoreFields();
  };
});

/** Stores a trace that has these texts as service names too, unlike the other hostile trace. It is too old to be among the newest
 * traces, and new enough for a sample of the last hour. */
async function storeTrace(): Promise<string> {
  const id = randomUUID().replaceAll("-", "");
  const literal = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const spanId = (index: number) => literal(index === 0 ? "" : String(index).padStart(16, "0"));
  const attributes = [MARKUP, SCRIPT, BIDI_TEXT, ISOLATE_CONTROLS].flatMap((text) => [text, text]);
  const spans = [
    { service: MARKUP, name: SCRIPT },
    { service: BIDI_TEXT, name: BIDI_TEXT },
    { service: "__proto__", name: ISOLATE_CONTROLS },
  ].map(({ service, name }, index) => {
    const columns = [
      "now64(9) - 2700",
      literal(id),
      spanId(index + 1),
      spanId(index === 0 ? 0 : 1),
      literal(name),
      "'Server'",
      literal(service),
      "1000000",
      "'Unset'",
      `map(${attributes.map(literal).join(", ")})`,
    ];
    // Two columns with the same text would have the same name.
    return `SELECT ${columns.map((column, columnIndex) => `${column} AS c${columnIndex}`).join(", ")}`;
  });
  const response = await fetch(`${clickhouseUrl}/`, {
    method: "POST",
    headers: { "X-ClickHouse-User": "default", "X-ClickHouse-Key": clickhousePassword },
    body:
      "INSERT INTO otel.otel_traces (Timestamp, TraceId, SpanId, ParentSpanId, SpanName, SpanKind, ServiceName, " +
      `Duration, StatusCode, SpanAttributes) ${spans.join(" UNION ALL ")}`,
  });
  if (!response.ok) {
    throw new Error(
      `the trace could not be inserted into ClickHouse: ${response.status} ${await response.text()}`,
    );
  }
  return id;
}

/** Creates audit records with the names that a user chooses for a key and a client, and with requested values. */
async function readAsAgent(memberSession: Session): Promise<void> {
  const { token } = await memberSession.call<{ token: string }>("POST", "/me/api-keys", { name: MARKUP });
  const call = {
    name: "svc_query_traces",
    arguments: { conditions: [{ name: "SpanName", op: "eq", value: BIDI_TEXT }], last: "1d" },
  };
  const server = { url: `${service}/mcp`, headers: { Authorization: `Bearer ${token}` } };
  await callTool(server, call, { name: MARKUP, version: "1.0" });
}

const openPage = async (path: string) => {
  await visitor.page.goto(pagePath(path));
  await waitUntilIdle(visitor.page);
};

/** Waits for the texts first: absent texts would pass every check. */
const expectHarmless = (...texts: [Locator, ...Locator[]]) =>
  expectPlainTexts(visitor.page, foreignUrls, ...texts);

const bidiText = (within: Locator) => within.getByText("U+202E", { exact: true });
const markup = (within: Locator) => within.getByText(MARKUP);
const script = (within: Locator) => within.getByText(SCRIPT);
const member = (within: Locator) => within.getByText(MEMBER);

describe("the trace source shows as text", () => {
  const fields = () => visitor.page.getByRole("table", { name: "Fields" });
  const searchFields = (text: string) =>
    visitor.page.getByRole("textbox", { name: "Search fields" }).fill(text);

  test("marked keys, and examples of their values", async () => {
    const { page } = visitor;
    await openPage("/source");
    await searchFields("onerror");
    await expectHarmless(markup(fields()));
    await searchFields("fdp.exe");
    await expectHarmless(bidiText(fields()));
    await page.getByRole("button", { name: "Find more fields" }).click();
    await waitUntilIdle(page);
    await fields()
      .getByRole("button", { name: /^Examples of SpanAttributes\["invoice/ })
      .click();
    await expectHarmless(
      bidiText(page.getByRole("dialog").filter({ hasText: "Values found in the sample" })),
    );
  });

  test("keys of a sample, and unsaved changes", async () => {
    const { page } = visitor;
    await openPage(`/source/setup?step=fields&${TABLE_PARAMS}`);
    await searchFields("admin");
    await page.getByRole("checkbox", { name: `${ISOLATE_CONTROLS_FIELD} searchable` }).check();
    await page.getByRole("button", { name: /^1 change not saved/ }).click();
    const unsavedChanges = page.getByRole("table", { name: "Changes that are not saved" });
    await expectHarmless(
      fields().getByText("U+2066", { exact: true }),
      unsavedChanges.getByText("U+2066", { exact: true }),
    );
    await page.getByRole("button", { name: "Discard changes" }).click();
  });

  test("policies that a change of fields would break", async () => {
    const { page } = visitor;
    await openPage("/source");
    await searchFields("fdp.exe");
    await page.getByRole("checkbox", { name: `${BIDI_FIELD} usable in policies` }).uncheck();
    await page.getByRole("button", { name: "Save changes" }).click();
    await expectHarmless(
      markup(page.getByRole("alert").filter({ hasText: "The fields were not saved" })),
      bidiText(fields().getByRole("alert")),
    );
    await page.getByRole("button", { name: "Discard changes" }).click();
  });

  test("fields and values for a first role", async () => {
    const { page } = visitor;
    await openPage(`/source/setup?step=role&${TABLE_PARAMS}`);
    await page.getByRole("combobox", { name: "Field", exact: true }).click();
    const field = page.getByRole("option", { name: BIDI_FIELD, exact: true });
    await expectHarmless(field);
    await field.click();
    await waitUntilIdle(page);
    await page.getByRole("combobox", { name: "Values", exact: true }).click();
    const value = page.getByRole("option", { name: BIDI_LABEL, exact: true });
    await expectHarmless(value);
    await value.click();
    await page.keyboard.press("Escape");
    await expectHarmless(
      bidiText(page.locator(".mantine-Pill-root")),
      bidiText(page.getByRole("textbox", { name: "Policy", exact: true })),
    );
  });

  test("suggested additions to the table", async () => {
    const { page } = visitor;
    await openPage("/source?tab=speed");
    const column = page.getByRole("button").filter({ hasText: /Key column for SpanAttributes\["invoice/ });
    await expectHarmless(bidiText(column));
    await column.click();
    await expectHarmless(bidiText(page.locator("pre").filter({ hasText: "fdp.exe" })));
  });
});

describe("roles show as text", () => {
  const policy = (number: number) =>
    visitor.page.getByRole("region", { name: `Policy ${number}`, exact: true });
  const expression = (number: number) => policy(number).getByRole("textbox", { name: "Expression" });

  test("titles, expressions and members", async () => {
    const { page } = visitor;
    await openPage("/roles");
    await expectHarmless(script(page.getByRole("table", { name: "Roles" })));
    await openPage(`/roles/${ROLE}`);
    await expectHarmless(
      bidiText(expression(1)),
      bidiText(expression(2)),
      // The field that the expression reads.
      bidiText(policy(2).locator(".mantine-Badge-root")),
      member(page.getByRole("list", { name: "Members" })),
    );
    expect(await policy(1).getByRole("textbox", { name: "Title" }).inputValue()).toBe(SCRIPT);
  });

  test("spans that policies are tested with", { timeout: 120_000 }, async () => {
    const { page } = visitor;
    const trial = page.getByRole("region", { name: "Test", exact: true });
    await openPage(`/roles/${ROLE}`);
    await trial.getByText("one trace", { exact: true }).click();
    await trial.getByRole("textbox", { name: "Trace id" }).fill(trace);
    await trial.getByRole("button", { name: "Run test" }).click();
    const spans = trial.getByRole("table", { name: `Spans of trace ${trace}` });
    await expectHarmless(
      bidiText(spans),
      script(spans),
      markup(spans),
      spans.getByText("__proto__", { exact: true }),
    );
    await spans.getByRole("button", { name: `${BIDI_LABEL}: decisive parts` }).click();
    await expectHarmless(bidiText(spans.locator("pre")));
  });

  test("values of collateral access", { timeout: 120_000 }, async () => {
    const { page } = visitor;
    const section = page.getByRole("region", { name: "Collateral access" });
    await openPage(`/roles/${ROLE}`);
    await section.getByText("24 h", { exact: true }).click();
    await section.getByRole("combobox", { name: "Field" }).click();
    await expectHarmless(page.getByRole("option", { name: BIDI_FIELD, exact: true }));
    await page.getByRole("option", { name: "SpanName", exact: true }).click();
    await section.getByRole("button", { name: "Count", exact: true }).click();
    await waitUntilVisible(section.getByText("Counting read"), 60_000);
    await section.getByRole("button", { name: /^Show all/ }).click();
    const values = section.getByRole("table", { name: "Values that become visible" });
    await expectHarmless(bidiText(values), script(values), values.getByText("U+2066", { exact: true }));
  });

  test("the impact of a changed role, and its collateral access", { timeout: 120_000 }, async () => {
    const { page } = visitor;
    await openPage(`/roles/${ROLE}`);
    await expression(1).click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText(`SpanName == "${BIDI_TEXT}" && ServiceName == "${BIDI_TEXT}"`);
    await page.getByRole("button", { name: "Review and save" }).click();
    const review = page.getByRole("dialog", { name: `Review the changes of ${ROLE}` });
    await waitUntilVisible(review.getByRole("heading", { name: "Role in isolation" }), 60_000);
    // Values of the service, which is the default field.
    const values = review.getByRole("table", { name: "Values that become visible" });
    await expectHarmless(
      bidiText(review.getByRole("region", { name: "Policy changed" })),
      member(review.getByRole("table", { name: "Users whose access was compared" })),
      markup(values),
      bidiText(values),
    );
    await review.getByRole("button", { name: "Back" }).click();
    await waitUntilDetached(review);
  });

  test("diagnostics of an expression, and their fixes", async () => {
    const { page } = visitor;
    await openPage("/new-role");
    await page.getByRole("button", { name: "Add a policy" }).click();
    const editor = page.getByRole("textbox", { name: "Expression" });
    await editor.click();
    await page.keyboard.insertText(`SpanAttributes["${BIDI_TEXT.replace(".", "_")}"] == "a"`);
    const diagnostics = page.getByRole("list", { name: "Diagnostics for Expression" });
    await expectHarmless(
      bidiText(diagnostics),
      diagnostics.getByRole("button", { name: `Replace with ${BIDI_FIELD}` }),
    );
    // The editor's tooltip shows the same text at the pointer.
    await editor.locator(".cm-lintRange-error").first().hover();
    await expectHarmless(page.locator(".cm-tooltip-lint").getByText("⟨U+202E⟩"));
  });
});

describe("users show as text", () => {
  test("names, attributes, policies and keys", async () => {
    const { page } = visitor;
    await openPage("/users");
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: MEMBER, exact: true }) });
    await expectHarmless(bidiText(row), markup(row));
    await openPage(MEMBER_PATH);
    const access = page.getByRole("region", { name: "Effective access" });
    await expectHarmless(
      page.getByRole("heading", { name: MEMBER, level: 1 }),
      bidiText(page.getByRole("region", { name: "Roles and attributes" })),
      script(access),
      bidiText(access.locator("pre")),
      bidiText(access.getByRole("table", { name: "Attributes that it reads" })),
      markup(page.getByRole("region", { name: "API keys" })),
    );
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    const confirmation = page.getByRole("dialog", { name: `Delete ${MEMBER}?` });
    await expectHarmless(confirmation.getByText(`Type ${MEMBER} to confirm`));
    await confirmation.getByRole("button", { name: "Cancel" }).click();
    await waitUntilDetached(confirmation);
  });
});

describe("the access to a trace shows as text", () => {
  test("users who have it, and why another user has it", async () => {
    const { page } = visitor;
    await openPage(`/trace/${trace}?why=viewers`);
    const viewers = page.getByRole("list", { name: "Users who can see this trace" });
    await expectHarmless(
      member(viewers),
      script(viewers),
      markup(viewers),
      bidiText(page.getByRole("treegrid", { name: "Spans" })),
    );
    await viewers.getByRole("button", { name: `Explain for ${MEMBER}` }).click();
    const panel = page.getByRole("region", { name: "Who sees this, and why" });
    await waitUntilVisible(panel.getByText("Access granted", { exact: true }));
    await expectHarmless(
      member(panel),
      script(panel),
      markup(panel),
      bidiText(panel.locator("pre")),
      // The link to a matching span.
      bidiText(panel.getByRole("button").filter({ hasText: "fdp.exe" })),
    );
  });

  test("to an administrator without access", async () => {
    const { context, page } = await newVisitor("administering hostile texts alone");
    const requestedUrls = foreignRequests(page);
    await signIn(page, ADMIN_WITHOUT_ACCESS);
    await page.goto(pagePath(`/trace/${trace}?why=user&user=${encodeURIComponent(MEMBER)}`));
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByText("Counts only"));
    const main = page.getByRole("main");
    await expectPlainTexts(
      page,
      requestedUrls,
      member(main),
      script(main),
      markup(main),
      bidiText(main.locator("pre")),
    );
    await context.close();
  });
});

describe("a search shows as text", () => {
  test("conditions on such fields, and results", async () => {
    const { page } = visitor;
    await openPage(`/search?last=24h&where=${encodeURIComponent(`${BIDI_TEXT} = ${BIDI_TEXT}`)}`);
    await expectHarmless(
      bidiText(page.getByRole("button", { name: /^Edit condition/ })),
      script(page.getByRole("table", { name: "Traces found" })),
    );
  });

  test("errors in the conditions of a link", async () => {
    const { page } = visitor;
    await openPage(`/search?last=24h&where=${encodeURIComponent("no\u202esuch = 1")}`);
    await expectHarmless(bidiText(page.getByRole("alert").filter({ hasText: "This search is invalid" })));
    await page.getByRole("button", { name: /^Edit condition/ }).click();
    await expectHarmless(page.getByRole("alert").filter({ hasText: "no⟨U+202E⟩such" }));
  });
});

describe("the model history shows as text", () => {
  test("changes of fields and roles, and the plan of a restore", { timeout: 120_000 }, async () => {
    const { page } = visitor;
    const { changes } = await admin.call<{
      changes: { version: number; action: string; target?: string }[];
    }>("GET", "/schema/history");
    const versionOf = (action: string, target?: string) =>
      changes.find((candidate) => candidate.action === action && candidate.target === target)?.version;
    const changed = page.getByRole("region", { name: "Changes in this version" });
    await openPage("/history");
    await expectHarmless(bidiText(page.getByRole("table", { name: "Changes" })));
    await openPage(`/history/${versionOf("role.put", ROLE)}`);
    await expectHarmless(bidiText(changed), script(changed), markup(changed));
    await openPage(`/history/${versionOf("schema.put_fields")}`);
    await expectHarmless(bidiText(changed), markup(changed));
    await page.getByRole("button", { name: "Restore this version" }).click();
    const confirmation = page.getByRole("dialog", { name: /^Restore version/ });
    await waitUntilVisible(confirmation.getByRole("heading", { name: "Differences" }), 60_000);
    await expectHarmless(
      member(confirmation.getByRole("alert").filter({ hasText: "Users lose a role" })),
      member(confirmation.getByRole("table", { name: "Users whose access was compared" })),
      bidiText(confirmation),
      script(confirmation),
    );
    await confirmation.getByRole("button", { name: "Cancel" }).click();
    await waitUntilDetached(confirmation);
  });
});

describe("the audit log shows as text", () => {
  /** Opens the newest record whose row contains all of the texts. */
  async function openRecord(query: string, ...texts: string[]): Promise<{ row: Locator; details: Locator }> {
    const { page } = visitor;
    await openPage(`/audit?from=24h&outcome=success&${query}`);
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
    const record = visitor.page.getByRole("table", { name: "The record" });
    await expectHarmless(
      member(row),
      markup(row),
      member(record),
      record.getByRole("row", { name: /^MCP client/ }).getByText(MARKUP),
      bidiText(details),
    );
    const createdUser = await openRecord(`action=api_key.create&actor=${actor}`, MARKUP);
    await expectHarmless(markup(createdUser.row), markup(createdUser.details));
  });

  test("changes", async () => {
    const user = await openRecord("action=user.create", MEMBER);
    await expectHarmless(member(user.row), bidiText(user.details), markup(user.details));
    const role = await openRecord("action=role.put", ROLE);
    await expectHarmless(bidiText(role.details), script(role.details), markup(role.details));
    const marks = await openRecord("action=schema.put_fields");
    await expectHarmless(bidiText(marks.details), markup(marks.details));
  });
});

describe("a preview shows as text", () => {
  test("the previewed user, and the policies that grant access", async () => {
    const { page } = visitor;
    await openPage(MEMBER_PATH);
    await page.getByRole("button", { name: "View as" }).click();
    await page.waitForURL("**/ui/search**");
    await waitUntilIdle(page);
    const bar = page.getByRole("status").filter({ hasText: "You see traces as" });
    await expectHarmless(member(bar));
    await openPage(`/trace/${trace}`);
    await expectHarmless(
      member(bar),
      bidiText(page.getByRole("treegrid", { name: "Spans" })),
      script(page.getByRole("button", { name: /^Why do I see this\?/ })),
    );
    await page.getByRole("button", { name: "End preview" }).click();
    await waitUntilDetached(bar);
  });
});
