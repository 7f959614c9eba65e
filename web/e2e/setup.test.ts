import { beforeAll, describe, expect, test } from "vitest";
import { type Visitor, visitor } from "./browser";
import { environment } from "./environment";
import { at, quiet, shown, submitLogIn } from "./pages";
import { OWN_PASSWORD } from "./session";

const { adminPassword } = environment();

let admin: Visitor;

beforeAll(async () => {
  admin = await visitor("admin");
});

describe("the first log-in", () => {
  test("leads from any page to the log-in", async () => {
    await admin.page.goto(at("/"));
    await admin.page.waitForURL("**/ui/login**");
    await shown(admin.page.getByRole("button", { name: "Log in" }));
  });

  test("with a wrong password says so, and keeps the name", async () => {
    const { page } = admin;
    await submitLogIn(page, "admin", "surely not this one");
    await shown(page.getByRole("alert"));
    expect(await page.getByLabel("User name", { exact: true }).inputValue()).toBe("admin");
  });

  test("with the generated password leads to the choice of one's own, and nowhere else", async () => {
    const { page } = admin;
    await submitLogIn(page, "admin", adminPassword);
    await shown(page.getByRole("heading", { name: "Choose a password of your own" }));
    await page.goto(at("/users"));
    await shown(page.getByRole("heading", { name: "Choose a password of your own" }));
    expect(await page.getByRole("link", { name: "Users" }).count()).toBe(0);
  });

  test("refuses a short password, and two that differ, while they are typed", async () => {
    const { page } = admin;
    await page.getByLabel("Current password").fill(adminPassword);
    await page.getByLabel("New password", { exact: true }).fill("short");
    await shown(page.getByText("7 characters too short"));
    await page.getByLabel("New password", { exact: true }).fill(OWN_PASSWORD);
    await page.getByLabel("New password again").fill("another");
    await shown(page.getByText("Not the same"));
    expect(await page.getByRole("button", { name: "Change password" }).isDisabled()).toBe(true);
  });

  test("goes on with a good one to where it was going", async () => {
    const { page } = admin;
    await page.getByLabel("New password again").fill(OWN_PASSWORD);
    await page.getByRole("button", { name: "Change password" }).click();
    await page.waitForURL("**/ui/users");
    await shown(page.getByRole("heading", { name: "Users", level: 1 }));
    await quiet(page);
  });
});
