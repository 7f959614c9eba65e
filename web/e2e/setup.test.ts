import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { copyText, pagePath, signIn, submitSignIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { administrator, EVERYTHING, ensureSetUp, ensureUser, READER } from "./service";
import { OWN_PASSWORD } from "./session";

const { adminPassword } = environment();

let admin: Visitor;

beforeAll(async () => {
  admin = await newVisitor("admin");
});

describe("the first sign-in", () => {
  test("is required by every page", async () => {
    await admin.page.goto(pagePath("/"));
    await admin.page.waitForURL("**/ui/login**");
    await waitUntilVisible(admin.page.getByRole("button", { name: "Sign in" }));
  });

  test("with a wrong password shows an error, and keeps the user name", async () => {
    const { page } = admin;
    await submitSignIn(page, "admin", "surely not this one");
    await waitUntilVisible(page.getByRole("alert"));
    expect(await page.getByLabel("User name", { exact: true }).inputValue()).toBe("admin");
  });

  test("with the generated password requires a new password first", async () => {
    const { page } = admin;
    await submitSignIn(page, "admin", adminPassword);
    await waitUntilVisible(page.getByRole("heading", { name: "Choose your own password" }));
    await page.goto(pagePath("/users"));
    await waitUntilVisible(page.getByRole("heading", { name: "Choose your own password" }));
    expect(await page.getByRole("link", { name: "Users" }).count()).toBe(0);
  });

  test("rejects a short password, and two that differ, during typing", async () => {
    const { page } = admin;
    await page.getByLabel("Current password").fill(adminPassword);
    await page.getByLabel("New password", { exact: true }).fill("short");
    await waitUntilVisible(page.getByText("7 characters too short"));
    await page.getByLabel("New password", { exact: true }).fill(OWN_PASSWORD);
    await page.getByLabel("Confirm new password").fill("another");
    await waitUntilVisible(page.getByText("The passwords differ"));
    expect(await page.getByRole("button", { name: "Change password" }).isDisabled()).toBe(true);
  });

  test("continues with a valid password to the requested page", async () => {
    const { page } = admin;
    await page.getByLabel("Confirm new password").fill(OWN_PASSWORD);
    await page.getByRole("button", { name: "Change password" }).click();
    await page.waitForURL("**/ui/users");
    await waitUntilVisible(page.getByRole("heading", { name: "Users", level: 1 }));
    await waitUntilIdle(page);
  });
});

describe("the wizard", () => {
  test("finds the trace table, and proposes the mapping of its columns", async () => {
    const { page } = admin;
    await page.goto(pagePath("/source"));
    await waitUntilIdle(page);
    await page
      .getByRole("link", { name: /set up/i })
      .first()
      .click();
    await page.getByRole("button", { name: "Choose otel.otel_traces", exact: true }).click();
    await waitUntilVisible(page.getByRole("heading", { name: "Map the columns" }));
    await waitUntilIdle(page);
    const selectedColumn = async (label: string) => page.getByRole("combobox", { name: label }).inputValue();
    expect(await selectedColumn("Trace id")).toMatch(/^TraceId /);
    expect(await selectedColumn("Parent span id")).toMatch(/^ParentSpanId /);
  });

  test("binds it", async () => {
    const { page } = admin;
    await page.getByRole("button", { name: "Bind and continue" }).click();
    await waitUntilVisible(page.getByRole("heading", { name: "Which fields may be used?" }));
    await waitUntilIdle(page);
    const { binding } = await (await administrator()).call<{ binding: Record<string, unknown> }>(
      "GET",
      "/schema",
    );
    expect(binding).toMatchObject({
      database: "otel",
      table: "otel_traces",
      trace_id: "TraceId",
      span_id: "SpanId",
      parent_span_id: "ParentSpanId",
      timestamp: "Timestamp",
      trace_index: "otel_traces_trace_id_ts",
      display: { name: "SpanName", service: "ServiceName", duration: "Duration" },
    });
  });

  test("marks recommended fields, and others one by one", async () => {
    const { page } = admin;
    await page.getByRole("button", { name: /^Mark recommended fields/ }).click();
    await page.getByRole("textbox", { name: "Search fields" }).fill("tenant.id");
    await page.getByRole("checkbox", { name: 'SpanAttributes["tenant.id"] searchable' }).check();
    await page.getByRole("checkbox", { name: 'SpanAttributes["tenant.id"] usable in policies' }).check();
    await page.getByRole("textbox", { name: "Search fields" }).fill("Duration");
    // Numeric fields cannot be used in policies.
    await page.getByRole("checkbox", { name: "Duration searchable" }).check();
    expect(await page.getByRole("checkbox", { name: "Duration usable in policies" }).count()).toBe(0);
    await page.getByRole("button", { name: "Save and continue" }).click();
    await waitUntilVisible(page.getByRole("heading", { name: "Which traces do you want to see yourself?" }));
    const { fields } = await (await administrator()).call<{ fields: { ref: string }[] }>("GET", "/schema");
    expect(fields).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ ref: "ServiceName", filterable: true, policy: true }),
        expect.objectContaining({ ref: 'SpanAttributes["tenant.id"]', filterable: true, policy: true }),
        expect.objectContaining({ ref: "Duration", filterable: true, policy: false }),
      ]),
    );
  });

  test("assigns the administrator a first role, which grants access to traces", {
    timeout: 90_000,
  }, async () => {
    const { page } = admin;
    await page.getByRole("radio", { name: "An expression of my own" }).check();
    await page.getByRole("textbox", { name: "Policy", exact: true }).fill('ServiceName == "frontend"');
    await page.getByRole("textbox", { name: "Title of the policy" }).fill("The frontend");
    await page.getByRole("textbox", { name: "Name of the role" }).fill("frontend-traces");
    await page.getByRole("button", { name: "Create role and assign it to me" }).click();
    await waitUntilVisible(page.getByRole("status").filter({ hasText: "You can see traces now" }), 30_000);
    expect(await (await administrator()).call("GET", "/me")).toMatchObject({
      roles: expect.arrayContaining(["admin", "frontend-traces"]),
    });
    await page.getByRole("button", { name: "Continue" }).click();
    await waitUntilVisible(page.getByRole("heading", { name: "What makes searches faster?" }));
    await waitUntilIdle(page);
    await page.getByRole("button", { name: "Finish" }).click();
    await waitUntilVisible(page.getByRole("heading", { name: "The trace source is set up" }));
    await page.getByRole("link", { name: "Search traces" }).click();
    await page.waitForURL("**/ui/search**");
    await waitUntilIdle(page);
  });
});

describe("a role", () => {
  const editor = () => admin.page.getByRole("textbox", { name: "Expression" });

  test("underlines the exact characters of an error", async () => {
    const { page } = admin;
    await page.getByRole("link", { name: "Roles", exact: true }).click();
    await page.getByRole("link", { name: "New role" }).click();
    await page.getByRole("textbox", { name: "Name" }).fill("tenant-support");
    await page.getByRole("button", { name: "Add a policy" }).click();
    await page.getByRole("textbox", { name: "Title" }).fill("Tenants looked after");
    await editor().click();
    await page.keyboard.insertText('ServiceName = "frontend" || ServiceNam == "checkout"');
    await waitUntilVisible(page.getByRole("button", { name: "1:13, error: go there" }));
    // The underline has no role; it shows the same diagnostics as the list.
    const underlinedText = () => editor().locator(".cm-lintRange-error").allTextContents();
    await expect.poll(underlinedText).toContain("=");
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText('ServiceName == "frontend" || ServiceNam == "checkout"');
    await expect.poll(underlinedText).toEqual(["ServiceNam"]);
    await waitUntilVisible(page.getByRole("status").filter({ hasText: "1 error at 1:30" }));
  });

  test("with an error cannot be saved", async () => {
    const { page } = admin;
    await page.getByRole("button", { name: "Review and save" }).click();
    await waitUntilVisible(page.getByText("Policy 1 has errors"));
    expect(await page.getByRole("dialog").count()).toBe(0);
    expect((await (await administrator()).request("GET", "/roles/tenant-support")).status).toBe(404);
  });

  test("is saved after its review if it is valid", async () => {
    const { page } = admin;
    await editor().click();
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.insertText('SpanAttributes["tenant.id"] in user.attributes.tenants');
    await waitUntilVisible(page.getByRole("status").filter({ hasText: /^Valid/ }));
    await page.getByRole("button", { name: "Review and save" }).click();
    const dialog = page.getByRole("dialog", { name: "Review the changes of tenant-support" });
    await waitUntilVisible(dialog.getByText("No user has this role yet"));
    await dialog.getByRole("button", { name: "Save", exact: true }).click();
    await page.waitForURL("**/ui/roles/tenant-support");
    expect(await (await administrator()).call("GET", "/roles/tenant-support")).toMatchObject({
      policies: [
        {
          title: "Tenants looked after",
          expression: 'SpanAttributes["tenant.id"] in user.attributes.tenants',
        },
      ],
    });
  });
});

describe("a user", () => {
  let password = "";
  // Requested only once, because the examples of a field are sampled and may change.
  let tenants: string[] = [];
  let support: Visitor;

  test("is created with a role and attributes; the password is shown only once", async () => {
    const { page } = admin;
    await page.getByRole("link", { name: "Users", exact: true }).first().click();
    await page.getByRole("button", { name: "Create user" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "User name" }).fill("sam");
    await dialog.getByRole("combobox", { name: "Roles" }).click();
    await page.getByRole("option", { name: "tenant-support" }).click();
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Add attribute" }).click();
    await dialog.getByRole("textbox", { name: "Name of the new attribute" }).fill("tenants");
    await dialog.getByRole("combobox", { name: "Kind of tenants" }).click();
    await page.getByRole("option", { name: /list/i }).click();
    tenants = await someTenants();
    for (const tenant of tenants) {
      await dialog.getByRole("combobox", { name: "Value of tenants" }).fill(tenant);
      await page.keyboard.press("Enter");
    }
    await dialog.getByRole("button", { name: "Create user" }).click();
    await waitUntilVisible(page.getByRole("dialog", { name: "sam was created" }));
    password = await copyText(page, () => page.getByRole("button", { name: "Copy password" }).click());
    expect(password.length).toBeGreaterThan(12);
    await page.getByRole("button", { name: "Done" }).click();
    expect(await page.getByText(password).count()).toBe(0);
    await waitUntilVisible(page.getByRole("link", { name: "sam" }));
  });

  test("signs in, chooses a password, and sees only the traces of the tenants", async () => {
    support = await newVisitor("sam");
    const { page } = support;
    await page.goto(pagePath("/"));
    await submitSignIn(page, "sam", password);
    await page.getByLabel("Current password").fill(password);
    await page.getByLabel("New password", { exact: true }).fill(OWN_PASSWORD);
    await page.getByLabel("Confirm new password").fill(OWN_PASSWORD);
    await page.getByRole("button", { name: "Change password" }).click();
    await page.waitForURL("**/ui/search**");
    await waitUntilIdle(page);
    expect(await page.getByRole("link", { name: "Users" }).count()).toBe(0);
    await page.goto(pagePath("/users"));
    await waitUntilVisible(page.getByText("This page is for administrators"));
    await support.context.close();
    const newPage = await newVisitor("sam again");
    await signIn(newPage.page, "sam");
    await newPage.page.goto(pagePath("/search?last=24h"));
    await waitUntilIdle(newPage.page);
    const rows = newPage.page.getByRole("table", { name: "Traces found" }).locator("tr[data-trace]");
    const listedUsers = await rows.evaluateAll((rows) =>
      rows.map((row) => row.getAttribute("data-trace") ?? ""),
    );
    await newPage.context.close();
    expect(listedUsers.length).toBeGreaterThan(3);
    // Checked by the content of the spans, read by a user who may see all traces, and not by the service's responses for this
    // user.
    const allTraces = await ensureUser(await ensureSetUp(), READER, [EVERYTHING]);
    for (const trace of listedUsers.slice(0, 20)) {
      const { spans } = await allTraces.call<{ spans: { SpanAttributes: Record<string, string> }[] }>(
        "GET",
        `/traces/${trace}`,
      );
      expect(spans.some((span) => tenants.includes(span.SpanAttributes["tenant.id"] ?? ""))).toBe(true);
    }
  });
});

/** Returns two tenants that occur in the traces. */
async function someTenants(): Promise<string[]> {
  const { maps } = await (await administrator()).call<{
    maps: { map: string; keys: { name: string; examples: string[] }[] }[];
  }>("GET", "/schema/tables/otel/otel_traces");
  const keys = maps.find(({ map }) => map === "SpanAttributes")?.keys ?? [];
  const examples = keys.find(({ name }) => name === "tenant.id")?.examples ?? [];
  expect(examples.length).toBeGreaterThan(0);
  return examples.slice(0, 2);
}
