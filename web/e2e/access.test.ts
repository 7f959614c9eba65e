import { execFile } from "node:child_process";
import { promisify } from "node:util";
import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { environment } from "./environment";
import { CLIENT, callTool, type McpServer } from "./mcp";
import { at, clipboard, copied, copiedCall, listed, logIn, quiet, shown, submitLogIn } from "./pages";
import { administrator, EVERYTHING, ensureSetUp, person, READER } from "./service";
import type { Session } from "./session";
import { MISSING } from "./views";

const run = promisify(execFile);
const { url: service } = environment();

/** User with access to some of the traces. */
const PARTLY = "partly";
const PARTLY_ROLE = "errors-only";

let admin: Session;
let open: string;
let closed: string;

const ids = async (session: Session): Promise<string[]> =>
  (await session.call<{ trace_ids: string[] }>("POST", "/traces/query", { view: "ids", limit: 200 }))
    .trace_ids;

beforeAll(async () => {
  admin = await ensureSetUp();
  await admin.call("PUT", `/roles/${PARTLY_ROLE}`, {
    policies: [{ title: "Traces with an error", expression: 'StatusCode == "Error"' }],
  });
  const all = await ids(await person(admin, READER, [EVERYTHING]));
  const some = await ids(await person(admin, PARTLY, [PARTLY_ROLE]));
  const [seen, unseen] = [some[0], all.find((id) => !some.includes(id))];
  if (seen === undefined || unseen === undefined) {
    throw new Error("ClickHouse has no trace with an error, or none without");
  }
  open = seen;
  closed = unseen;
});

const rowsOf = (page: Page, table: string) => page.getByRole("table", { name: table }).getByRole("row");

describe("a link to a trace", () => {
  let visit: Visitor;

  beforeAll(async () => {
    visit = await visitor("with a link");
  });

  test("leads to the trace after the sign-in", async () => {
    const { page } = visit;
    await page.goto(at(`/trace/${open}?view=groups`));
    await page.waitForURL("**/ui/login**");
    await submitLogIn(page, PARTLY);
    await page.waitForURL(`**/ui/trace/${open}?view=groups`);
    await quiet(page);
    await shown(page.getByRole("table", { name: "Operations" }));
  });

  test("without access shows the same page as for a trace that does not exist", async () => {
    const { page } = visit;
    const page_of = async (id: string) => {
      await page.goto(at(`/trace/${id}`));
      await quiet(page);
      return {
        title: await page.title(),
        text: (await page.locator("body").ariaSnapshot()).replaceAll(id, "ID"),
        html: (await page.getByRole("main").innerHTML()).replaceAll(id, "ID").replaceAll(/mantine-\w+/g, ""),
      };
    };
    const forbidden = await page_of(closed);
    expect(forbidden.text).toContain("This trace does not exist, or you may not see it");
    expect(forbidden).toEqual(await page_of(MISSING));
  });
});

describe("a session", () => {
  test("that is ended elsewhere leads to the sign-in page, and back", async () => {
    const here = await visitor("here");
    const there = await visitor("there");
    await logIn(here.page, PARTLY);
    await here.page.goto(at("/account"));
    await logIn(there.page, PARTLY);
    await there.page.goto(at(`/trace/${open}`));
    await quiet(there.page);
    await here.page.reload();
    await quiet(here.page);
    await here.page.getByRole("button", { name: "Sign out all others" }).click();
    await here.page.getByRole("dialog").getByRole("button", { name: "Sign out all others" }).click();
    await expect.poll(() => here.page.getByRole("dialog").count()).toBe(0);
    await there.page.getByRole("button", { name: "Reload" }).click();
    await there.page.waitForURL("**/ui/login**");
    await shown(there.page.getByRole("button", { name: "Sign in" }));
    // The page shows nothing of the trace any more.
    expect(await there.page.getByRole("treegrid").count()).toBe(0);
    await submitLogIn(there.page, PARTLY);
    await there.page.waitForURL(`**/ui/trace/${open}**`);
    await Promise.all([here.context.close(), there.context.close()]);
  });
});

describe("an API key", () => {
  let visit: Visitor;
  let token = "";
  let server: McpServer;

  beforeAll(async () => {
    visit = await visitor("with keys");
    await logIn(visit.page, PARTLY);
  });

  const curl = async (): Promise<{ status: number; body: string }> => {
    const { stdout } = await run("curl", [
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
    const { page } = visit;
    await page.goto(at("/account"));
    await quiet(page);
    await page.getByRole("button", { name: "Create API key" }).click();
    await page.getByRole("dialog").getByRole("textbox", { name: "Name" }).fill("browser test");
    await page.getByRole("dialog").getByRole("button", { name: "Create key" }).click();
    await shown(page.getByRole("dialog", { name: "The key was created" }));
    token = await copied(page, () => page.getByRole("button", { name: "Copy token" }).click());
    expect(token).toMatch(/^twk_\w+$/);
    const { status, body } = await curl();
    expect(status).toBe(200);
    const owner = await ids(await person(admin, PARTLY, [PARTLY_ROLE]));
    expect((JSON.parse(body) as { trace_ids: string[] }).trace_ids).toEqual(owner);
  });

  test("comes with the configuration of MCP clients", async () => {
    const { page } = visit;
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
    const page = await visit.context.newPage();
    await page.goto(at("/search?last=24h"));
    await quiet(page);
    const call = await copiedCall(page);
    const { traces } = await callTool<{ traces: { trace_id: string }[] }>(server, call);
    const called = traces.map(({ trace_id }) => trace_id);
    expect(called.length).toBeGreaterThan(1);
    expect((await listed(page)).slice(0, called.length)).toEqual(called);

    await page.goto(at(`/trace/${open}`));
    await quiet(page);
    await page.getByRole("button", { name: "MCP call" }).click();
    await expect.poll(() => clipboard(page)).toContain("svc_get_trace");
    const opened = await callTool(server, JSON.parse(await clipboard(page)));
    expect(JSON.stringify(opened)).toContain(open);
    // The key has the access of its owner, who may not see this trace.
    const other = { name: "svc_get_trace", arguments: { trace_id: closed } };
    await expect(callTool(server, other)).rejects.toThrow("not_found");
    await page.close();
  });

  test("shows its token only once", async () => {
    const { page } = visit;
    await page.getByRole("dialog").getByRole("button", { name: "Done" }).click();
    await shown(page.getByRole("cell", { name: "browser test" }));
    await page.reload();
    await quiet(page);
    expect(await page.getByText(token).count()).toBe(0);
  });

  test("is rejected after it is revoked", async () => {
    const { page } = visit;
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
  let visit: Visitor;
  const links = () => rowsOf(visit.page, "Traces found").getByRole("link");
  const bar = () => visit.page.getByRole("status").filter({ hasText: "You see traces as" });

  beforeAll(async () => {
    visit = await visitor("previewing");
    await logIn(visit.page, "admin");
  });

  test("shows a bar on every page, and the traces of that user", async () => {
    const { page } = visit;
    await page.goto(at(`/users/${PARTLY}`));
    await quiet(page);
    await page.getByRole("button", { name: "View as" }).click();
    await page.waitForURL("**/ui/search**");
    await shown(bar().filter({ hasText: PARTLY }));
    await page.goto(at("/roles"));
    await shown(bar());
    await page.goto(at("/search?last=24h"));
    await quiet(page);
    expect(await links().count()).toBeGreaterThan(0);
    await page.goto(at(`/trace/${open}`));
    await shown(page.getByRole("treegrid", { name: "Spans" }));
    await page.goto(at(`/trace/${closed}`));
    await shown(page.getByRole("heading", { name: "This trace does not exist, or you may not see it" }));
  });

  test("ends with the button in the bar", async () => {
    const { page } = visit;
    await page.getByRole("button", { name: "End preview" }).click();
    await expect.poll(() => bar().count()).toBe(0);
    expect(await admin.call("GET", "/me")).toMatchObject({ preview: null });
  });
});

describe("the audit log", () => {
  test("has records of all actions, with their actors", async () => {
    const { page } = await visitor("auditing");
    await logIn(page, "admin");
    const expected: [action: string, actor: string][] = [
      ["api_key.create", PARTLY],
      ["api_key.revoke", PARTLY],
      ["session.end", PARTLY],
      ["traces.get", PARTLY],
      ["preview.begin", "admin"],
      ["preview.end", "admin"],
      ["role.put", "admin"],
      ["user.create", "admin"],
      ["login", PARTLY],
    ];
    for (const [action, actor] of expected) {
      await page.goto(at(`/audit?action=${action}&actor=${actor}&from=24h`));
      await quiet(page);
      const records = page.getByRole("button", { name: /open the record/ });
      await shown(records);
      const { records: answered } = await (await administrator()).call<{ records: unknown[] }>(
        "GET",
        `/audit?action=${action}&actor=${actor}&limit=50`,
      );
      expect([action, await records.count()]).toEqual([action, Math.min(answered.length, 50)]);
    }
  });

  test("distinguishes reads of a key from those of its owner", async () => {
    const { page } = await visitor("auditing a key");
    await logIn(page, "admin");
    await page.goto(at(`/audit?action=traces.query&actor=${PARTLY}&from=24h`));
    await quiet(page);
    await shown(page.getByRole("row").filter({ hasText: /by API key/i }));
  });

  test("has the tool and the client of reads by an agent", async () => {
    const { page } = await visitor("auditing an agent");
    await logIn(page, "admin");
    await page.goto(at(`/audit?action=traces.query&actor=${PARTLY}&from=24h`));
    await quiet(page);
    const client = `${CLIENT.name} ${CLIENT.version}`;
    const row = page.getByRole("row").filter({ hasText: `by MCP, ${client}` });
    await shown(row.filter({ hasText: "svc_query_traces" }));
    await row
      .first()
      .getByRole("button", { name: /open the record/ })
      .click();
    const record = page.getByRole("table", { name: "The record" });
    await shown(record.getByRole("row", { name: "MCP tool svc_query_traces" }));
    await shown(record.getByRole("row", { name: `MCP client ${client}` }));
  });

  test("shows a record with its details, at its own URL", async () => {
    const { page } = await visitor("auditing one");
    await logIn(page, "admin");
    await page.goto(at(`/audit?action=role.put&from=24h`));
    await quiet(page);
    await page
      .getByRole("button", { name: /open the record/ })
      .first()
      .click();
    await page.waitForURL((url) => url.searchParams.has("record"));
    await shown(page.getByRole("table", { name: "The record" }));
    await page.reload();
    await shown(page.getByRole("table", { name: "The record" }));
  });
});
