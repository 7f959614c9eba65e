import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { pagePath, resultIds, signIn, waitUntilDetached, waitUntilIdle, waitUntilVisible } from "./pages";
import { administrator, ensureSetUp, ensureUser } from "./service";
import type { Session } from "./session";

const { providerUrl, providerToken, url } = environment();

/** The official MCP client for TypeScript, as a program. */
const SDK = fileURLToPath(
  new URL("../../crates/tracewarden/tests/mcp/clients/typescript_sdk.mjs", import.meta.url),
);

/** Role that only the mapping gives. */
const ROLE = "errors-by-group";
const GROUP = "/on-call";
const PASSWORD = "the password at the provider";
/** User with a password and the same role, for comparison. */
const COLLEAGUE = "colleague";

let admin: Session;
let colleague: Session;
let visitor: Visitor;

/** Changes the identity provider, as its administrators do. */
async function control(path: string, body: unknown = ""): Promise<void> {
  const response = await fetch(`${providerUrl}/control/${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${providerToken}` },
    body: JSON.stringify(body),
  });
  if (!response.ok) {
    throw new Error(`${path}: ${response.status} ${await response.text()}`);
  }
}

const putPerson = (login: string, claims: unknown) =>
  control(`user?login=${login}`, { password: PASSWORD, claims });

const providerButton = (page: Page) => page.getByRole("link", { name: "Company account" });

/** Fills in the provider's own page. */
async function signInAtProvider(page: Page, login: string): Promise<void> {
  await page.waitForURL(`${providerUrl}/**`);
  await page.getByLabel("Login").fill(login);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Sign in" }).click();
}

beforeAll(async () => {
  admin = await ensureSetUp();
  await admin.call("PUT", `/roles/${ROLE}`, {
    policies: [{ title: "Traces with an error", expression: 'StatusCode == "Error"' }],
  });
  colleague = await ensureUser(admin, COLLEAGUE, [ROLE]);
  await putPerson("petra", { groups: [GROUP], department: "payments" });
  await putPerson("otto", { groups: ["/office"] });
  visitor = await newVisitor("person", { viewport: { width: 1440, height: 900 } });
});

// Tests of other files count users.
afterAll(async () => {
  await admin.call("PUT", "/identity/providers/company/mapping", { roles: [], attributes: {} });
  for (const path of [`/users/${COLLEAGUE}`, "/users/petra", `/roles/${ROLE}`]) {
    await admin.call("DELETE", path);
  }
});

describe("an administrator", () => {
  test("maps a group to a role, and tries it before saving", async () => {
    const { page } = await newVisitor("administrator", { viewport: { width: 1440, height: 900 } });
    await signIn(page, "admin");
    await page.goto(pagePath("/identity"));
    await page.getByRole("button", { name: "Add a role" }).click();
    await page.getByLabel("Role 1", { exact: true }).fill(ROLE);
    await page.getByLabel("for people with 1", { exact: true }).fill(`"${GROUP}" in claims.groups`);
    await page.getByRole("button", { name: "Add an attribute" }).click();
    await page.getByLabel("Attribute 1", { exact: true }).fill("team");
    await page.getByLabel("with the value of 1", { exact: true }).fill("claims.department");
    const claims = page.getByLabel("Claims of a person");
    await claims.fill('{"sub": "1", "groups": ["/office"]}');
    await page.getByRole("button", { name: "Run test" }).click();
    const outcome = page.getByRole("status");
    await waitUntilVisible(outcome.getByText("No role. A new person cannot sign in"));
    await claims.fill(`{"sub": "1", "groups": ["${GROUP}"], "department": "payments"}`);
    await page.getByRole("button", { name: "Run test" }).click();
    await waitUntilVisible(outcome.getByText(ROLE));
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await waitUntilVisible(page.getByText("Saved. The roles or attributes of 0 people changed."));
    const mapping = await admin.call("GET", "/identity/providers/company/mapping");
    expect(mapping).toMatchObject({
      roles: [{ role: ROLE, when: `"${GROUP}" in claims.groups` }],
      attributes: { team: "claims.department" },
    });
  });
});

describe("a person of the company", () => {
  test("signs in with one click and one password, and comes to the page of the link", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/search?last=24h"));
    await page.waitForURL("**/ui/login**");
    await waitUntilVisible(providerButton(page));
    await providerButton(page).click();
    await signInAtProvider(page, "petra");
    await page.waitForURL("**/ui/search?last=24h");
    await waitUntilIdle(page);
  });

  test("sees the traces of the mapped role, and no others", async () => {
    const { page } = visitor;
    const { trace_ids: expected } = await colleague.call<{ trace_ids: string[] }>("POST", "/traces/query", {
      view: "ids",
      limit: 25,
    });
    const shown = await resultIds(page);
    expect(shown.length).toBeGreaterThan(5);
    expect(shown.slice(0, 5)).toEqual(expected.slice(0, 5));
    const { trace_ids: all } = await page.evaluate(async () => {
      const response = await fetch("/traces/query", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ view: "ids", limit: 200 }),
      });
      return (await response.json()) as { trace_ids: string[] };
    });
    const same = await colleague.call<{ trace_ids: string[] }>("POST", "/traces/query", {
      view: "ids",
      limit: 200,
    });
    expect(all).toEqual(same.trace_ids);
  });

  test("has no password to change here", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/account"));
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByRole("row", { name: "Signed in with company" }));
    expect(await page.getByRole("heading", { name: "Password" }).count()).toBe(0);
  });

  test("reads on the open page that the company ended the session, and goes on after the next sign-in", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(page);
    await control("logout?login=petra&client=tracewarden");
    await page.getByRole("switch", { name: "Errors only" }).click({ force: true });
    const dialog = page.getByRole("dialog", { name: "Your session has ended" });
    await waitUntilVisible(dialog);
    const opened = page.context().waitForEvent("page");
    await dialog.getByRole("link", { name: "Sign in with company" }).click();
    await (await opened).waitForURL("**/ui/account");
    await dialog.getByRole("button", { name: "Continue" }).click();
    await waitUntilDetached(dialog);
    await waitUntilIdle(page);
    expect((await resultIds(page)).length).toBeGreaterThan(5);
  });

  test("signs out here, and then at the provider", async () => {
    const { page } = visitor;
    await page.getByRole("button", { name: "Account of petra" }).click();
    await page.getByRole("menuitem", { name: "Sign out" }).click();
    await waitUntilVisible(page.getByText("You are signed out here"));
    await page.getByRole("link", { name: "Sign out of Company account too" }).click();
    await page.waitForURL(`${providerUrl}/**`);
    await page.getByRole("button", { name: "Yes" }).click();
    await page.waitForURL("**/ui/login**");
    await waitUntilVisible(providerButton(page));
    // The provider asks for the password again.
    await providerButton(page).click();
    await signInAtProvider(page, "petra");
    await page.waitForURL("**/ui/search**");
    await waitUntilIdle(page);
  });

  test("without a mapped group reads what to do", async () => {
    const { page } = await newVisitor("person without a role");
    await page.goto(pagePath("/login"));
    await providerButton(page).click();
    await signInAtProvider(page, "otto");
    await page.waitForURL("**/ui/login?failed=no_role**");
    await waitUntilVisible(page.getByText("You have no role here."));
    const users = await (await administrator()).call<{ users: { username: string }[] }>("GET", "/users");
    expect(users.users.map(({ username }) => username)).not.toContain("otto");
  });
});

describe("a user with a password", () => {
  test("is linked to the person at the company, and unlinked, by an administrator", async () => {
    const name = `linked-${Date.now()}`;
    await putPerson(name, { groups: [GROUP] });
    await ensureUser(admin, name, [ROLE]);
    onTestFinished(async () => {
      await admin.call("DELETE", `/users/${name}`);
    });
    const person = (await newVisitor("linked person")).page;
    await person.goto(pagePath("/login"));
    await providerButton(person).click();
    await signInAtProvider(person, name);
    await person.waitForURL("**/ui/login?failed=name_taken**");

    const { page } = await newVisitor("linking administrator", { viewport: { width: 1440, height: 900 } });
    await signIn(page, "admin");
    await page.goto(pagePath(`/users/${name}`));
    await page.getByRole("button", { name: "Link to a provider…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Subject").fill(name);
    await dialog.getByRole("button", { name: "Link", exact: true }).click();
    await waitUntilVisible(page.getByText("Access is suspended"));
    const { trace_ids: readable } = await colleague.call<{ trace_ids: string[] }>("POST", "/traces/query", {
      view: "ids",
      limit: 1,
    });
    await page.goto(pagePath(`/trace/${readable[0]}?why=viewers`));
    const suspended = page.getByRole("alert").filter({ hasText: "Suspended: sessions and API keys" });
    await waitUntilVisible(suspended.getByText(name));
    await page.goto(pagePath(`/users/${name}`));

    await person.goto(pagePath("/login"));
    await providerButton(person).click();
    await person.waitForURL("**/ui/search**");
    await page.reload();
    await waitUntilVisible(page.getByText("Signs in with the identity provider company"));
    await waitUntilDetached(page.getByText("Access is suspended"));
    await page.goto(pagePath(`/users?find=${name}`));
    await waitUntilVisible(page.getByRole("row", { name }).getByText("Signs in with company"));
    await page.goto(pagePath(`/users/${name}`));
    await page.getByRole("button", { name: "Unlink" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Unlink" }).click();
    await waitUntilVisible(page.getByText(/^[a-z2-9]{4}(-[a-z2-9]{4}){4}$/));
    await person.reload();
    await person.waitForURL("**/ui/login**");
  });
});

describe("an agent", () => {
  test("that knows only the address signs in its person in the browser, and reads as that person", async () => {
    const directory = await mkdtemp(join(tmpdir(), "tracewarden-agent-"));
    onTestFinished(() => rm(directory, { recursive: true }));
    const calls = join(directory, "calls.json");
    const query = { last: "24h", limit: 5 };
    await writeFile(calls, JSON.stringify([{ name: "svc_query_traces", arguments: query }]));
    const { MCP_API_KEY: _, ...env } = process.env;
    const agent = spawn(process.execPath, [SDK, `${url}/mcp`, "newest", calls], { env });
    const printed = text(agent.stdout);
    const address = await new Promise<string>((resolve, reject) => {
      createInterface({ input: agent.stderr }).on("line", (line) => {
        if (line.startsWith("browse ")) {
          resolve(line.slice("browse ".length));
        }
      });
      agent.on("exit", () => reject(new Error("the agent ended without a sign-in")));
    });
    const { page } = visitor;
    await page.goto(address);
    await waitUntilVisible(page.getByRole("heading", { name: "Allow access" }));
    await page.getByRole("button", { name: "Allow" }).click();
    await waitUntilVisible(page.getByText("signed in"));
    const document = JSON.parse(await printed) as { results: { isError: boolean; text: string }[] };
    const [result] = document.results;
    expect(result?.isError, JSON.stringify(document)).toBe(false);
    const { trace_ids: expected } = await colleague.call<{ trace_ids: string[] }>("POST", "/traces/query", {
      view: "ids",
      limit: 5,
    });
    for (const id of expected) {
      expect(result?.text).toContain(id);
    }
    const { records } = await admin.call<{ records: unknown[] }>(
      "GET",
      "/audit?action=traces.query&limit=20",
    );
    expect(records).toContainEqual(
      expect.objectContaining({
        actor: expect.objectContaining({ username: "petra", via: "mcp" }),
        detail: expect.objectContaining({
          oauth_client: expect.any(String),
          mcp: expect.objectContaining({ tool: "svc_query_traces" }),
        }),
      }),
    );
  });
});

describe("an administrator, later,", () => {
  test("sees what the provider gives, apart from what is assigned here", async () => {
    const { page } = await newVisitor("administrator", { viewport: { width: 1440, height: 900 } });
    await signIn(page, "admin");
    await page.goto(pagePath("/users/petra"));
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByText("Signs in with the identity provider company"));
    await waitUntilVisible(page.getByText(ROLE).first());
  });
});
