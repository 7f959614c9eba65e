import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { CLIENT, callTool, type McpServer } from "./mcp";
import {
  clipboard,
  copyText,
  copyToolCall,
  pagePath,
  resultIds,
  signIn,
  submitSignIn,
  waitUntilDetached,
  waitUntilIdle,
  waitUntilVisible,
} from "./pages";
import { administrator, EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import { OWN_PASSWORD, type Session } from "./session";
import { MISSING_TRACE_ID } from "./views";

const execFileAsync = promisify(execFile);
const { url: service } = environment();

/** User with access to some of the traces. */
const LIMITED_USER = "partly";
const ERRORS_ROLE = "errors-only";

let admin: Session;
let visibleTrace: string;
let hiddenTrace: string;

const traceIds = async (session: Session): Promise<string[]> =>
  (await session.call<{ trace_ids: string[] }>("POST", "/traces/query", { view: "ids", limit: 200 }))
    .trace_ids;

beforeAll(async () => {
  admin = await ensureSetUp();
  await admin.call("PUT", `/roles/${ERRORS_ROLE}`, {
    policies: [{ title: "Traces with an error", expression: 'StatusCode == "Error"' }],
  });
  const allIds = await traceIds(await ensureUser(admin, READER, [EVERYTHING]));
  const limitedIds = await traceIds(await ensureUser(admin, LIMITED_USER, [ERRORS_ROLE]));
  const [firstVisible, firstHidden] = [limitedIds[0], allIds.find((id) => !limitedIds.includes(id))];
  if (firstVisible === undefined || firstHidden === undefined) {
    throw new Error("ClickHouse has no trace with an error, or none without");
  }
  visibleTrace = firstVisible;
  hiddenTrace = firstHidden;
});

const rowsOf = (page: Page, table: string) => page.getByRole("table", { name: table }).getByRole("row");

describe("a link to a trace", () => {
  let visitor: Visitor;

  beforeAll(async () => {
    visitor = await newVisitor("with a link");
  });

  test("leads to the trace after the sign-in", async () => {
    const { page } = visitor;
    await page.goto(pagePath(`/trace/${visibleTrace}?view=groups`));
    await page.waitForURL("**/ui/login**");
    await submitSignIn(page, LIMITED_USER);
    await page.waitForURL(`**/ui/trace/${visibleTrace}?view=groups`);
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByRole("table", { name: "Operations" }));
  });

  test("without access shows the same page as for a trace that does not exist", async () => {
    const { page } = visitor;
    const pageContent = async (id: string) => {
      await page.goto(pagePath(`/trace/${id}`));
      await waitUntilIdle(page);
      return {
        title: await page.title(),
        text: (await page.locator("body").ariaSnapshot()).replaceAll(id, "ID"),
        html: (await page.getByRole("main").innerHTML()).replaceAll(id, "ID").replaceAll(/mantine-\w+/g, ""),
      };
    };
    const forbidden = await pageContent(hiddenTrace);
    expect(forbidden.text).toContain("This trace does not exist, or you may not see it");
    expect(forbidden).toEqual(await pageContent(MISSING_TRACE_ID));
  });
});

describe("a session", () => {
  const dialogOf = (page: Page) => page.getByRole("dialog", { name: "Your session has ended" });

  const enterPassword = async (page: Page) => {
    await page.getByRole("dialog").getByLabel("Password", { exact: true }).fill(OWN_PASSWORD);
    await page.getByRole("dialog").getByRole("button", { name: "Sign in" }).click();
  };

  test("that is ended elsewhere asks for the password over the page, and goes on", async () => {
    const firstVisitor = await newVisitor("here");
    const secondVisitor = await newVisitor("there");
    await signIn(firstVisitor.page, LIMITED_USER);
    await firstVisitor.page.goto(pagePath("/account"));
    await signIn(secondVisitor.page, LIMITED_USER);
    await secondVisitor.page.goto(pagePath(`/trace/${visibleTrace}`));
    await waitUntilIdle(secondVisitor.page);
    await firstVisitor.page.reload();
    await waitUntilIdle(firstVisitor.page);
    await firstVisitor.page.getByRole("button", { name: "Sign out all others" }).click();
    await firstVisitor.page.getByRole("dialog").getByRole("button", { name: "Sign out all others" }).click();
    await expect.poll(() => firstVisitor.page.getByRole("dialog").count()).toBe(0);
    const { page } = secondVisitor;
    await page.getByRole("button", { name: "Reload" }).click();
    await waitUntilVisible(dialogOf(page));
    // The dialog covers the page: a point of it belongs to the curtain.
    const covered = await page.evaluate(
      () => document.elementFromPoint(5, 5)?.closest("main, header") === null,
    );
    expect(covered).toBe(true);
    await page.getByRole("dialog").getByLabel("Password", { exact: true }).fill("not the password");
    await page.getByRole("dialog").getByRole("button", { name: "Sign in" }).click();
    await waitUntilVisible(page.getByRole("dialog").getByRole("alert"));
    await enterPassword(page);
    await waitUntilDetached(dialogOf(page));
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByRole("treegrid", { name: "Spans" }));
    expect(page.url()).toContain(`/ui/trace/${visibleTrace}`);
    await Promise.all([firstVisitor.context.close(), secondVisitor.context.close()]);
  });

  test("that ends while a role is edited loses nothing, and the change is saved after the sign-in", async () => {
    const role = "edited-in-two-sessions";
    const [title, editor] = ["Typed before the session ended", "role-editor"];
    await admin.call("PUT", `/roles/${role}`, { policies: [{ title: "Before", expression: "true" }] });
    await ensureUser(admin, editor, ["admin"]);
    const { context, page } = await newVisitor("editing");
    await signIn(page, editor);
    await page.goto(pagePath(`/roles/${role}`));
    await waitUntilIdle(page);
    await page.getByRole("textbox", { name: "Title" }).fill(title);
    // A request still running would be the one that learns of the end, and its dialog would take the click.
    await waitUntilIdle(page);
    await admin.call("DELETE", `/users/${editor}/sessions`);
    await page.getByRole("button", { name: "Review and save" }).click();
    await waitUntilVisible(dialogOf(page));
    await enterPassword(page);
    await waitUntilDetached(dialogOf(page));
    const review = page.getByRole("dialog", { name: `Review the changes of ${role}` });
    await waitUntilVisible(review);
    await waitUntilIdle(page);
    await admin.call("DELETE", `/users/${editor}/sessions`);
    await review.getByRole("button", { name: "Save", exact: true }).click();
    await waitUntilVisible(dialogOf(page));
    // The key does not reach the covered dialog.
    await page.keyboard.press("Escape");
    await page
      .getByRole("dialog", { name: "Your session has ended" })
      .getByLabel("Password", { exact: true })
      .fill(OWN_PASSWORD);
    await dialogOf(page).getByRole("button", { name: "Sign in" }).click();
    await waitUntilDetached(dialogOf(page));
    await waitUntilDetached(review);
    const saved = await admin.call<{ policies: { title: string }[] }>("GET", `/roles/${role}`);
    expect(saved.policies.map((policy) => policy.title)).toEqual([title]);
    await admin.call("DELETE", `/roles/${role}`);
    await context.close();
  });

  test("of another user in a second window shows nothing of one user to the other", async () => {
    const { context, page } = await newVisitor("two windows");
    await signIn(page, LIMITED_USER);
    await page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(page);
    const other = await context.newPage();
    await other.goto(pagePath("/account"));
    await other.getByRole("button", { name: `Account of ${LIMITED_USER}` }).click();
    await other.getByRole("menuitem", { name: "Sign out" }).click();
    await other.waitForURL("**/ui/login**");
    await submitSignIn(other, READER);
    await other.waitForURL("**/ui/search**");
    const bodies: string[] = [];
    page.on("response", async (response) => {
      if (!new URL(response.url()).pathname.startsWith("/ui/")) {
        bodies.push(`${response.status()} ${await response.text().catch(() => "")}`);
      }
    });
    await page.getByRole("button", { name: "Search", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Another user signed in in this browser" });
    await waitUntilVisible(dialog);
    // Nothing of the other user's arrived.
    await expect.poll(() => bodies.length).toBeGreaterThan(0);
    expect(bodies.filter((body) => !body.startsWith("412"))).toEqual([]);
    await dialog.getByRole("button", { name: "Continue as the other user" }).click();
    await waitUntilVisible(page.getByRole("button", { name: `Account of ${READER}` }));
    await waitUntilIdle(page);
    await context.close();
  });
});

describe("an API key", () => {
  let visitor: Visitor;
  let token = "";
  let server: McpServer;

  beforeAll(async () => {
    visitor = await newVisitor("with keys");
    await signIn(visitor.page, LIMITED_USER);
  });

  const curl = async (): Promise<{ status: number; body: string }> => {
    const { stdout } = await execFileAsync("curl", [
      "--silent",
      "--write-out",
      "\n%{http_code}",
      "--header",
      `Authorization: Bearer ${token}`,
      "--header",
      "Content-Type: application/json",
      "--data",
      JSON.stringify({ view: "ids", limit: 200 }),
      `${service}/traces/query`,
    ]);
    const end = stdout.lastIndexOf("\n");
    return { status: Number(stdout.slice(end + 1)), body: stdout.slice(0, end) };
  };

  test("is created in the browser, and has the access of its owner", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/account"));
    await waitUntilIdle(page);
    await page.getByRole("button", { name: "Create API key" }).click();
    await page.getByRole("dialog").getByRole("textbox", { name: "Name" }).fill("browser test");
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await waitUntilVisible(page.getByRole("dialog", { name: "The key was created" }));
    token = await copyText(page, () => page.getByRole("button", { name: "Copy token" }).click());
    expect(token).toMatch(/^twk_\w+$/);
    const { status, body } = await curl();
    expect(status).toBe(200);
    const owner = await traceIds(await ensureUser(admin, LIMITED_USER, [ERRORS_ROLE]));
    expect((JSON.parse(body) as { trace_ids: string[] }).trace_ids).toEqual(owner);
  });

  test("comes with the configuration of MCP clients", async () => {
    const { page } = visitor;
    await page.getByRole("button", { name: "Copy the configuration" }).click();
    await expect.poll(() => clipboard(page)).toContain("mcpServers");
    const authorization = `Bearer ${token}`;
    const { mcpServers } = JSON.parse(await clipboard(page)) as { mcpServers: { tracewarden: McpServer } };
    server = mcpServers.tracewarden;
    expect(mcpServers).toEqual({
      tracewarden: { type: "http", url: `${service}/mcp`, headers: { Authorization: authorization } },
    });
    await page.getByRole("button", { name: "Copy the Claude Code command" }).click();
    await expect
      .poll(() => clipboard(page))
      .toBe(
        `claude mcp add --transport http tracewarden ${service}/mcp --header "Authorization: ${authorization}"`,
      );
  });

  test("returns the traces of a search to an agent's call, copied from that search", async () => {
    // A second page, because the first one still shows the API key.
    const page = await visitor.context.newPage();
    await page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(page);
    const call = await copyToolCall(page);
    const { traces } = await callTool<{ traces: { trace_id: string }[] }>(server, call);
    const calledIds = traces.map(({ trace_id }) => trace_id);
    expect(calledIds.length).toBeGreaterThan(1);
    expect((await resultIds(page)).slice(0, calledIds.length)).toEqual(calledIds);

    await page.goto(pagePath(`/trace/${visibleTrace}`));
    await waitUntilIdle(page);
    await page.getByRole("button", { name: "MCP call" }).click();
    await expect.poll(() => clipboard(page)).toContain("svc_get_trace");
    const traceResult = await callTool(server, JSON.parse(await clipboard(page)));
    expect(JSON.stringify(traceResult)).toContain(visibleTrace);
    // The key has the access of its owner, who may not see this trace.
    const hiddenCall = { name: "svc_get_trace", arguments: { trace_id: hiddenTrace } };
    await expect(callTool(server, hiddenCall)).rejects.toThrow("not_found");
    await page.close();
  });

  test("shows its token only once", async () => {
    const { page } = visitor;
    await page.getByRole("dialog").getByRole("button", { name: "Done" }).click();
    await waitUntilVisible(page.getByRole("cell", { name: "browser test" }));
    await page.reload();
    await waitUntilIdle(page);
    expect(await page.getByText(token).count()).toBe(0);
  });

  test("is rejected after it is revoked", async () => {
    const { page } = visitor;
    await page
      .getByRole("row", { name: /browser test/ })
      .getByRole("button", { name: /^Revoke/ })
      .click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Revoke/ })
      .click();
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
    expect((await curl()).status).toBe(401);
    const call = { name: "svc_filter_schema", arguments: {} };
    await expect(callTool(server, call)).rejects.toThrow(": 401 ");
  });
});

describe("viewing as another user", () => {
  let visitor: Visitor;
  const links = () => rowsOf(visitor.page, "Traces found").getByRole("link");
  const bar = () => visitor.page.getByRole("status").filter({ hasText: "You see traces as" });

  beforeAll(async () => {
    visitor = await newVisitor("previewing");
    await signIn(visitor.page, "admin");
  });

  test("shows a bar on every page, and the traces of that user", async () => {
    const { page } = visitor;
    await page.goto(pagePath(`/users/${LIMITED_USER}`));
    await waitUntilIdle(page);
    await page.getByRole("button", { name: "View as" }).click();
    await page.waitForURL("**/ui/search**");
    await waitUntilVisible(bar().filter({ hasText: LIMITED_USER }));
    await page.goto(pagePath("/roles"));
    await waitUntilVisible(bar());
    await page.goto(pagePath(`/search?last=24h&where=${encodeURIComponent("SpanName exists")}`));
    await waitUntilIdle(page);
    expect(await links().count()).toBeGreaterThan(0);
    // The search is not kept for the administrator.
    expect(await page.evaluate(() => Object.values(localStorage).join("\n"))).not.toContain("SpanName");
    await page.goto(pagePath(`/trace/${visibleTrace}`));
    await waitUntilVisible(page.getByRole("treegrid", { name: "Spans" }));
    await page.goto(pagePath(`/trace/${hiddenTrace}`));
    await waitUntilVisible(
      page.getByRole("heading", { name: "This trace does not exist, or you may not see it" }),
    );
  });

  test("ends with the button in the bar", async () => {
    const { page } = visitor;
    await page.getByRole("button", { name: "End preview" }).click();
    await expect.poll(() => bar().count()).toBe(0);
    expect(await admin.call("GET", "/me")).toMatchObject({ preview: null });
  });
});

describe("the audit log", () => {
  test("has records of all actions, with their actors", async () => {
    const { page } = await newVisitor("auditing");
    await signIn(page, "admin");
    const expected: [action: string, actor: string][] = [
      ["api_key.create", LIMITED_USER],
      ["api_key.revoke", LIMITED_USER],
      ["session.end", LIMITED_USER],
      ["traces.get", LIMITED_USER],
      ["preview.begin", "admin"],
      ["preview.end", "admin"],
      ["role.put", "admin"],
      ["user.create", "admin"],
      ["login", LIMITED_USER],
    ];
    for (const [action, actor] of expected) {
      await page.goto(pagePath(`/audit?action=${action}&actor=${actor}&from=24h`));
      await waitUntilIdle(page);
      const records = page.getByRole("button", { name: /open the record/ });
      await waitUntilVisible(records);
      const { records: apiRecords } = await (await administrator()).call<{ records: unknown[] }>(
        "GET",
        `/audit?action=${action}&actor=${actor}&limit=50`,
      );
      expect([action, await records.count()]).toEqual([action, Math.min(apiRecords.length, 50)]);
    }
  });

  test("distinguishes reads of a key from those of its owner", async () => {
    const { page } = await newVisitor("auditing a key");
    await signIn(page, "admin");
    await page.goto(pagePath(`/audit?action=traces.query&actor=${LIMITED_USER}&from=24h`));
    await waitUntilIdle(page);
    const row = page
      .getByRole("row")
      .filter({ hasText: /by API key/i })
      .first();
    await row.getByRole("button", { name: /open the record/ }).click();
    await page.getByRole("link", { name: "All records of this API key" }).click();
    await page.waitForURL((url) => url.searchParams.has("key") && !url.searchParams.has("actor"));
    const key = new URL(page.url()).searchParams.get("key");
    const ofKey = await (await administrator()).call<{ records: unknown[] }>(
      "GET",
      `/audit?key=${key}&limit=100`,
    );
    await waitUntilIdle(page);
    expect(await page.getByRole("button", { name: /open the record/ }).count()).toBe(ofKey.records.length);
    await page.getByRole("button", { name: "Any API key or session" }).click();
    await page.waitForURL((url) => !url.searchParams.has("key"));
  });

  test("shows who read a trace, by its id in any notation", async () => {
    const { page } = await newVisitor("auditing a trace");
    await signIn(page, "admin");
    const reader = await ensureUser(await administrator(), LIMITED_USER, [ERRORS_ROLE]);
    await reader.call("GET", `/traces/${visibleTrace}`);
    await page.goto(pagePath("/audit?action=traces.get&outcome=success&from=24h"));
    await waitUntilIdle(page);
    const open = page.getByRole("button", { name: /open the record/ });
    await open.first().click();
    await page.getByRole("link", { name: "All records of this target" }).click();
    await page.waitForURL((url) => url.searchParams.has("target") && !url.searchParams.has("action"));
    const target = visibleTrace;
    const ofTrace = await (await administrator()).call<{ records: unknown[] }>(
      "GET",
      `/audit?target=${target}&limit=100`,
    );
    await waitUntilIdle(page);
    expect(await open.count()).toBe(ofTrace.records.length);
    await page.getByLabel("Target: trace id, role, user…").fill(target.toUpperCase());
    await page.waitForURL((url) => url.searchParams.get("target") === target.toUpperCase());
    await waitUntilIdle(page);
    expect(await open.count()).toBe(ofTrace.records.length);
  });

  test("has the tool and the client of reads by an agent", async () => {
    const { page } = await newVisitor("auditing an agent");
    await signIn(page, "admin");
    await page.goto(pagePath(`/audit?action=traces.query&actor=${LIMITED_USER}&from=24h`));
    await waitUntilIdle(page);
    const client = `${CLIENT.name} ${CLIENT.version}`;
    const row = page.getByRole("row").filter({ hasText: `by MCP, ${client}` });
    await waitUntilVisible(row.filter({ hasText: "svc_query_traces" }));
    await row
      .first()
      .getByRole("button", { name: /open the record/ })
      .click();
    const record = page.getByRole("table", { name: "The record" });
    await waitUntilVisible(record.getByRole("row", { name: "MCP tool svc_query_traces" }));
    await waitUntilVisible(record.getByRole("row", { name: `MCP client ${client}` }));
  });

  test("shows a record with its details, at its own URL", async () => {
    const { page } = await newVisitor("auditing one");
    await signIn(page, "admin");
    await page.goto(pagePath(`/audit?action=role.put&from=24h`));
    await waitUntilIdle(page);
    await page
      .getByRole("button", { name: /open the record/ })
      .first()
      .click();
    await page.waitForURL((url) => url.searchParams.has("record"));
    await waitUntilVisible(page.getByRole("table", { name: "The record" }));
    await page.reload();
    await waitUntilVisible(page.getByRole("table", { name: "The record" }));
  });
});
