import { beforeAll, describe, expect, test } from "vitest";
import { newVisitor, type Visitor } from "./browser";
import { environment } from "./environment";
import { pagePath, signIn, waitUntilDetached, waitUntilIdle, waitUntilVisible } from "./pages";
import { administrator, EVERYTHING, ensureSetUp } from "./service";

const { url: service } = environment();
const NAME = `robot-${Date.now()}`;

let visitor: Visitor;
let token: string;

const statusOfMe = async (): Promise<number> =>
  (
    await fetch(`${service}/me`, {
      headers: { authorization: `Bearer ${token}`, "user-agent": "nightly/1.2" },
    })
  ).status;

beforeAll(async () => {
  await ensureSetUp();
  visitor = await newVisitor("service-accounts");
  await signIn(visitor.page, "admin");
});

describe("a service account", () => {
  test("is created without a password, and listed apart from people", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/users"));
    await waitUntilIdle(page);
    await page.getByRole("button", { name: "Create user" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("User name", { exact: true }).fill(NAME);
    await dialog.getByRole("switch", { name: /Service account/ }).check();
    expect(await dialog.getByRole("textbox", { name: "Owner" }).inputValue()).toBe("admin");
    await dialog.getByRole("combobox", { name: "Roles" }).click();
    await page.getByRole("option", { name: EVERYTHING, exact: true }).click();
    // The list of roles covers the button, if there are many.
    await page.keyboard.press("Escape");
    await dialog.getByRole("button", { name: "Create user" }).click();
    await waitUntilVisible(dialog.getByText("Make an API key for it on its page."));
    await dialog.getByRole("button", { name: "Done" }).click();
    expect(await page.getByRole("link", { name: NAME }).count()).toBe(0);
    await page.getByText("Service accounts", { exact: true }).click();
    await waitUntilVisible(page.getByRole("link", { name: NAME, exact: true }));
    expect(await page.getByRole("row", { name: NAME }).getByRole("link", { name: "admin" }).count()).toBe(1);
    await page.getByRole("link", { name: NAME, exact: true }).click();
    await waitUntilVisible(page.getByText("Service account of"));
    expect(await page.getByRole("button", { name: "Rotate password" }).count()).toBe(0);
    expect(await page.getByRole("heading", { name: "Sessions" }).count()).toBe(0);
  });

  test("gets keys that expire, with a warning before", async () => {
    const { page } = visitor;
    await page.getByRole("button", { name: "Create key" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Name", { exact: true }).fill("nightly");
    await dialog.getByRole("combobox", { name: "Expires" }).click();
    expect(await page.getByRole("option", { name: "Never" }).count()).toBe(0);
    await page.getByRole("option", { name: "7 days" }).click();
    await dialog.getByRole("button", { name: "Create key" }).click();
    await waitUntilVisible(dialog.getByText("The key was created"));
    token = (await dialog.getByText(/^twk_[0-9A-Za-z]{40,}$/).innerText()).trim();
    await dialog.getByRole("button", { name: "Done" }).click();
    await waitUntilVisible(page.getByText("Expires in 6 days"));
    expect(await statusOfMe()).toBe(200);
    await page.reload();
    await waitUntilVisible(page.getByText("127.0.0.1 nightly/1.2"));
  });

  test("depends on its owner's role", async () => {
    const { page } = visitor;
    await page.getByRole("combobox", { name: "Only while the owner has the role" }).click();
    await page.getByRole("option", { name: "admin", exact: true }).click();
    await page.getByRole("button", { name: "Save owner" }).click();
    await waitUntilVisible(page.getByText("while in admin"));
    expect(await statusOfMe()).toBe(200);
    await page.getByRole("textbox", { name: "Owner" }).fill(`absent-${NAME}`);
    await page.getByRole("button", { name: "Save owner" }).click();
    await waitUntilVisible(page.getByText("who can own a service account"));
    await page.getByRole("textbox", { name: "Owner" }).fill("admin");
    await waitUntilIdle(page);
  });

  test("loses a key that was found in public, by its first characters", async () => {
    const { page } = visitor;
    await page.goto(pagePath("/users"));
    await page.getByRole("button", { name: /^Find an API key/ }).click();
    const dialog = page.getByRole("dialog", { name: "Find an API key" });
    const requests: string[] = [];
    page.on("request", (request) => requests.push(request.url()));
    await dialog.getByLabel("First characters").fill(token);
    await dialog.getByRole("button", { name: "Find" }).click();
    await waitUntilVisible(dialog.getByRole("link", { name: NAME }));
    expect(requests.filter((url) => url.includes(token.slice(0, 9)))).toEqual([]);
    await dialog.getByRole("button", { name: /^Revoke/ }).click();
    await page
      .getByRole("dialog", { name: "Revoke this key?" })
      .getByRole("button", { name: "Revoke" })
      .click();
    await waitUntilVisible(dialog.getByText(/No key begins like this/));
    expect(await statusOfMe()).toBe(401);
  });

  test("is deleted", async () => {
    const { page } = visitor;
    await page.goto(pagePath(`/users/${NAME}`));
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox").fill(NAME);
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.waitForURL("**/ui/users?kind=service");
    await waitUntilDetached(page.getByRole("link", { name: NAME, exact: true }));
    const admin = await administrator();
    const { users } = await admin.call<{ users: { username: string }[] }>("GET", "/users?kind=service");
    expect(users.map(({ username }) => username)).not.toContain(NAME);
  });
});
