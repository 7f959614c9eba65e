import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { pagePath, signIn, waitUntilDetached, waitUntilIdle, waitUntilVisible } from "./pages";
import { ensureSetUp, ensureUser } from "./service";
import type { Session } from "./session";

const { url: service } = environment();

const ROLE = "versioned";
const MEMBER = "versioned-holder";
const FIRST_EXPRESSION = 'ServiceName == "cart" &&\nStatusCode == "Error"';
const SECOND_EXPRESSION = 'ServiceName == "cart" &&\nStatusCode == "Ok"';

let admin: Session;
let visitor: Visitor;
/** The model version that stored the first policy. */
let firstVersion: number;

const storeRole = (expression: string) =>
  admin.call("PUT", `/roles/${ROLE}`, { policies: [{ title: "The cart", expression }] });

const newestVersion = async (): Promise<{ version: number; action: string }> => {
  const { changes } = await admin.call<{ changes: { version: number; action: string }[] }>(
    "GET",
    "/schema/history",
  );
  return changes[0] as { version: number; action: string };
};

const storedExpression = async (): Promise<string | undefined> => {
  const response = await admin.request("GET", `/roles/${ROLE}`);
  return response.ok
    ? ((await response.json()) as { policies: { expression: string }[] }).policies[0]?.expression
    : undefined;
};

beforeAll(async () => {
  admin = await ensureSetUp();
  await storeRole(FIRST_EXPRESSION);
  firstVersion = (await newestVersion()).version;
  await storeRole(SECOND_EXPRESSION);
  await ensureUser(admin, MEMBER, [ROLE]);
  visitor = await newVisitor("the history");
  await signIn(visitor.page, "admin");
});

async function downloadedText(page: Page, button: string): Promise<{ name: string; text: string }> {
  const [file] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: button }).click(),
  ]);
  const parts: Uint8Array[] = [];
  for await (const part of await file.createReadStream()) {
    parts.push(part as Uint8Array);
  }
  return { name: file.suggestedFilename(), text: Buffer.concat(parts).toString("utf8") };
}

describe("the model history", () => {
  test("lists versions with their authors, newest first", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/search"));
    await waitUntilIdle(page);
    await page.getByRole("link", { name: "Model history", exact: true }).click();
    await waitUntilIdle(page);
    const row = page.getByRole("table", { name: "Changes" }).getByRole("row").nth(1);
    await waitUntilVisible(row.filter({ hasText: "Saved a role" }).filter({ hasText: "current" }));
    expect(await row.innerText()).toContain("admin");
    expect(await row.innerText()).toContain(ROLE);
  });

  test("shows the additions and removals of a version, at its own URL", async () => {
    const { page } = visitor;
    await page.getByRole("table", { name: "Changes" }).getByRole("link").first().click();
    await page.waitForURL(`**/ui/history/${firstVersion + 1}`);
    const policy = page.getByRole("region", { name: "Policy changed" });
    await waitUntilVisible(policy);
    expect(await policy.getByRole("deletion").allInnerTexts()).toEqual(["Error"]);
    expect(await policy.getByRole("insertion").allInnerTexts()).toEqual(["Ok"]);
    await page.reload();
    await waitUntilVisible(policy);
    expect(await page.getByRole("button", { name: "Restore this version" }).count()).toBe(0);
    await page.getByRole("link", { name: "Older" }).click();
    await page.waitForURL(`**/ui/history/${firstVersion}`);
    await waitUntilVisible(page.getByRole("button", { name: "Restore this version" }));
  });

  test("downloads each version as the file that the service exports", async () => {
    const { page } = visitor;
    const earlierFile = await downloadedText(page, "Download this version");
    expect(earlierFile.name).toBe(`access-model-${firstVersion}.yaml`);
    await page.goto(pagePath("/history"));
    await waitUntilIdle(page);
    const currentFile = await downloadedText(page, "Download the model");
    expect(currentFile.name).toBe(`access-model-${firstVersion + 1}.yaml`);
    // The files differ exactly in the change between the versions.
    const lines = (text: string) => text.split("\n");
    const [earlierLines, currentLines] = [lines(earlierFile.text), lines(currentFile.text)];
    expect(earlierLines.length).toBe(currentLines.length);
    expect(
      earlierLines.flatMap((line, index) =>
        line === currentLines[index] ? [] : [line.trim(), currentLines[index]?.trim()],
      ),
    ).toEqual([expect.stringContaining("Error"), expect.stringContaining("Ok")]);
  });

  test("shows a notice for a version that does not exist", async () => {
    const { page } = visitor;
    for (const path of ["/history/999999999", "/history/none"]) {
      await page.goto(pagePath(path));
      await waitUntilVisible(page.getByRole("heading", { name: "There is no such version" }));
    }
  });
});

describe("an earlier version", () => {
  test("is restored after its plan is shown, and does not overwrite a concurrent change", async () => {
    const { page } = visitor;
    await page.goto(pagePath(`/history/${firstVersion}`));
    await waitUntilIdle(page);
    await page.getByRole("button", { name: "Restore this version" }).click();
    const dialog = page.getByRole("dialog", { name: `Restore version ${firstVersion}?` });
    await waitUntilVisible(dialog.getByText("Role assignments are not restored"));
    await waitUntilIdle(page);
    await waitUntilVisible(dialog.getByText(`Against the current version ${firstVersion + 1}: 1 changed.`));
    await admin.call("PUT", "/roles/versioned-meanwhile", {
      policies: [{ title: "Meanwhile", expression: 'ServiceName == "email"' }],
    });
    await dialog.getByRole("button", { name: "Restore", exact: true }).click();
    await waitUntilVisible(
      dialog.getByRole("alert").filter({ hasText: "Another user changed the access model in the meantime" }),
    );
    expect(await storedExpression()).toBe(SECOND_EXPRESSION);
    await waitUntilIdle(page);
    await waitUntilVisible(
      dialog.getByText(`Against the current version ${firstVersion + 2}: 1 removed, 1 changed.`),
    );
    await dialog.getByRole("button", { name: "Restore", exact: true }).click();
    await page.waitForURL(`**/ui/history/${firstVersion + 3}`);
    expect(await storedExpression()).toBe(FIRST_EXPRESSION);
    expect((await admin.request("GET", "/roles/versioned-meanwhile")).status).toBe(404);
    expect(await newestVersion()).toEqual(
      expect.objectContaining({ version: firstVersion + 3, action: "model.restore" }),
    );
  });
});

describe("a file", () => {
  const exported = async (): Promise<string> => {
    const response = await fetch(`${service}/schema/export`, {
      headers: { cookie: await cookies(visitor), accept: "application/yaml" },
    });
    return response.text();
  };

  test("with the current version changes nothing", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/history"));
    await waitUntilIdle(page);
    await page.getByRole("link", { name: "Import model" }).click();
    await page
      .getByLabel("Choose a file")
      .or(page.locator("input[type=file]"))
      .first()
      .setInputFiles({
        name: "access.yaml",
        mimeType: "application/yaml",
        buffer: Buffer.from(await exported()),
      });
    await waitUntilVisible(page.getByText("The file is identical to the current version"));
    expect(await page.getByRole("button", { name: "Import", exact: true }).isDisabled()).toBe(true);
  });

  test("that is invalid shows an error", async () => {
    const { page } = visitor;
    await page.getByRole("textbox", { name: "Text of the file" }).fill("roles:\n  - name: [\n");
    await page.getByRole("button", { name: "Compare with the current version" }).click();
    await waitUntilVisible(page.getByRole("alert"));
    expect(await page.getByRole("button", { name: "Import", exact: true }).isDisabled()).toBe(true);
  });

  test("is imported after its plan, which names the users who lose a role", async () => {
    const { page } = visitor;
    const file = await admin.call<{ roles: { name: string }[] }>("GET", "/schema/export");
    expect(file.roles.map(({ name }) => name)).toContain(ROLE);
    file.roles = file.roles.filter(({ name }) => name !== ROLE);
    await page.getByRole("textbox", { name: "Text of the file" }).fill(JSON.stringify(file));
    await page.getByRole("button", { name: "Compare with the current version" }).click();
    await waitUntilIdle(page);
    await waitUntilVisible(page.getByRole("alert").filter({ hasText: "Users lose a role that is removed" }));
    await waitUntilVisible(page.getByText(`${ROLE}: 1 user loses it (${MEMBER})`));
    await waitUntilVisible(page.getByRole("region", { name: "Policy removed" }));
    const { version } = await newestVersion();
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await page.waitForURL(`**/ui/history/${version + 1}`);
    expect(await storedExpression()).toBeUndefined();
    expect(await newestVersion()).toEqual(
      expect.objectContaining({ version: version + 1, action: "model.import" }),
    );
    await waitUntilDetached(page.getByRole("dialog"));
  });

  test("asks for confirmation before an unsaved file is left", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/history/apply"));
    await page.getByRole("textbox", { name: "Text of the file" }).fill("roles: []");
    await page.getByRole("link", { name: "Audit", exact: true }).click();
    await waitUntilVisible(page.getByRole("dialog", { name: "Leave without saving?" }));
    await page.getByRole("button", { name: "Leave" }).click();
    await page.waitForURL("**/ui/audit**");
  });
});

describe("users who are not administrators", () => {
  test("cannot see the model history", async () => {
    const { page } = await newVisitor("no administrator");
    await signIn(page, MEMBER);
    expect(await page.getByRole("link", { name: "Model history", exact: true }).count()).toBe(0);
    await page.goto(pagePath("/history"));
    await waitUntilVisible(page.getByText("This page is for administrators"));
  });
});

async function cookies({ context }: Visitor): Promise<string> {
  return (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
}
