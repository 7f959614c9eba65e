import type { Page } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { environment } from "./environment";
import { at, gone, logIn, quiet, shown } from "./pages";
import { ensureSetUp, person } from "./service";
import type { Session } from "./session";

const { url: service } = environment();

const ROLE = "versioned";
const HOLDER = "versioned-holder";
const FIRST = 'ServiceName == "cart" &&\nStatusCode == "Error"';
const SECOND = 'ServiceName == "cart" &&\nStatusCode == "Ok"';

let admin: Session;
let visit: Visitor;
/** The model version that stored the first policy. */
let first: number;

const store = (expression: string) =>
  admin.call("PUT", `/roles/${ROLE}`, { policies: [{ title: "The cart", expression }] });

const newest = async (): Promise<{ version: number; action: string }> => {
  const { changes } = await admin.call<{ changes: { version: number; action: string }[] }>(
    "GET",
    "/schema/history",
  );
  return changes[0] as { version: number; action: string };
};

const stored = async (): Promise<string | undefined> => {
  const answer = await admin.ask("GET", `/roles/${ROLE}`);
  return answer.ok
    ? ((await answer.json()) as { policies: { expression: string }[] }).policies[0]?.expression
    : undefined;
};

beforeAll(async () => {
  admin = await ensureSetUp();
  await store(FIRST);
  first = (await newest()).version;
  await store(SECOND);
  await person(admin, HOLDER, [ROLE]);
  visit = await visitor("the history");
  await logIn(visit.page, "admin");
});

async function downloaded(page: Page, button: string): Promise<{ name: string; text: string }> {
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
    const { page } = visit;
    await page.goto(at("/search"));
    await quiet(page);
    await page.getByRole("link", { name: "Model history", exact: true }).click();
    await quiet(page);
    const row = page.getByRole("table", { name: "Changes" }).getByRole("row").nth(1);
    await shown(row.filter({ hasText: "Saved a role" }).filter({ hasText: "current" }));
    expect(await row.innerText()).toContain("admin");
    expect(await row.innerText()).toContain(ROLE);
  });

  test("shows the additions and removals of a version, at its own URL", async () => {
    const { page } = visit;
    await page.getByRole("table", { name: "Changes" }).getByRole("link").first().click();
    await page.waitForURL(`**/ui/history/${first + 1}`);
    const policy = page.getByRole("region", { name: "Policy changed" });
    await shown(policy);
    expect(await policy.getByRole("deletion").allInnerTexts()).toEqual(["Error"]);
    expect(await policy.getByRole("insertion").allInnerTexts()).toEqual(["Ok"]);
    await page.reload();
    await shown(policy);
    expect(await page.getByRole("button", { name: "Restore this version" }).count()).toBe(0);
    await page.getByRole("link", { name: "Older" }).click();
    await page.waitForURL(`**/ui/history/${first}`);
    await shown(page.getByRole("button", { name: "Restore this version" }));
  });

  test("downloads each version as the file that the service exports", async () => {
    const { page } = visit;
    const then = await downloaded(page, "Download this version");
    expect(then.name).toBe(`access-model-${first}.yaml`);
    await page.goto(at("/history"));
    await quiet(page);
    const now = await downloaded(page, "Download the model");
    expect(now.name).toBe(`access-model-${first + 1}.yaml`);
    // The files differ exactly in the change between the versions.
    const lines = (text: string) => text.split("\n");
    const [old, today] = [lines(then.text), lines(now.text)];
    expect(old.length).toBe(today.length);
    expect(
      old.flatMap((line, place) => (line === today[place] ? [] : [line.trim(), today[place]?.trim()])),
    ).toEqual([expect.stringContaining("Error"), expect.stringContaining("Ok")]);
  });

  test("shows a notice for a version that does not exist", async () => {
    const { page } = visit;
    for (const address of ["/history/999999999", "/history/none"]) {
      await page.goto(at(address));
      await shown(page.getByRole("heading", { name: "There is no such version" }));
    }
  });
});

describe("an earlier version", () => {
  test("is restored after its plan is shown, and does not overwrite a concurrent change", async () => {
    const { page } = visit;
    await page.goto(at(`/history/${first}`));
    await quiet(page);
    await page.getByRole("button", { name: "Restore this version" }).click();
    const dialog = page.getByRole("dialog", { name: `Restore version ${first}?` });
    await shown(dialog.getByText("Role assignments are not restored"));
    await quiet(page);
    await shown(dialog.getByText(`Against the current version ${first + 1}: 1 changed.`));
    await admin.call("PUT", "/roles/versioned-meanwhile", {
      policies: [{ title: "Meanwhile", expression: 'ServiceName == "email"' }],
    });
    await dialog.getByRole("button", { name: "Restore", exact: true }).click();
    await shown(
      dialog.getByRole("alert").filter({ hasText: "Another user changed the access model in the meantime" }),
    );
    expect(await stored()).toBe(SECOND);
    await quiet(page);
    await shown(dialog.getByText(`Against the current version ${first + 2}: 1 removed, 1 changed.`));
    await dialog.getByRole("button", { name: "Restore", exact: true }).click();
    await page.waitForURL(`**/ui/history/${first + 3}`);
    expect(await stored()).toBe(FIRST);
    expect((await admin.ask("GET", "/roles/versioned-meanwhile")).status).toBe(404);
    expect(await newest()).toEqual(expect.objectContaining({ version: first + 3, action: "model.restore" }));
  });
});

describe("a file", () => {
  const exported = async (): Promise<string> => {
    const answer = await fetch(`${service}/schema/export`, {
      headers: { cookie: await cookies(visit), accept: "application/yaml" },
    });
    return answer.text();
  };

  test("with the current version changes nothing", async () => {
    const { page } = visit;
    await page.goto(at("/history"));
    await quiet(page);
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
    await shown(page.getByText("The file is identical to the current version"));
    expect(await page.getByRole("button", { name: "Import", exact: true }).isDisabled()).toBe(true);
  });

  test("that is invalid shows an error", async () => {
    const { page } = visit;
    await page.getByRole("textbox", { name: "Text of the file" }).fill("roles:\n  - name: [\n");
    await page.getByRole("button", { name: "Compare with the current version" }).click();
    await shown(page.getByRole("alert"));
    expect(await page.getByRole("button", { name: "Import", exact: true }).isDisabled()).toBe(true);
  });

  test("is imported after its plan, which names the users who lose a role", async () => {
    const { page } = visit;
    const file = await admin.call<{ roles: { name: string }[] }>("GET", "/schema/export");
    expect(file.roles.map(({ name }) => name)).toContain(ROLE);
    file.roles = file.roles.filter(({ name }) => name !== ROLE);
    await page.getByRole("textbox", { name: "Text of the file" }).fill(JSON.stringify(file));
    await page.getByRole("button", { name: "Compare with the current version" }).click();
    await quiet(page);
    await shown(page.getByRole("alert").filter({ hasText: "Users lose a role that is removed" }));
    await shown(page.getByText(`${ROLE}: 1 user loses it (${HOLDER})`));
    await shown(page.getByRole("region", { name: "Policy removed" }));
    const { version } = await newest();
    await page.getByRole("button", { name: "Import", exact: true }).click();
    await page.waitForURL(`**/ui/history/${version + 1}`);
    expect(await stored()).toBeUndefined();
    expect(await newest()).toEqual(expect.objectContaining({ version: version + 1, action: "model.import" }));
    await gone(page.getByRole("dialog"));
  });

  test("asks for confirmation before an unsaved file is left", async () => {
    const { page } = visit;
    await page.goto(at("/history/apply"));
    await page.getByRole("textbox", { name: "Text of the file" }).fill("roles: []");
    await page.getByRole("link", { name: "Audit", exact: true }).click();
    await shown(page.getByRole("dialog", { name: "Leave without saving?" }));
    await page.getByRole("button", { name: "Leave" }).click();
    await page.waitForURL("**/ui/audit**");
  });
});

describe("users who are not administrators", () => {
  test("cannot see the model history", async () => {
    const { page } = await visitor("no administrator");
    await logIn(page, HOLDER);
    expect(await page.getByRole("link", { name: "Model history", exact: true }).count()).toBe(0);
    await page.goto(at("/history"));
    await shown(page.getByText("This page is for administrators"));
  });
});

async function cookies({ context }: Visitor): Promise<string> {
  return (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join("; ");
}
