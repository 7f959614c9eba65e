import { expect, test } from "vitest";
import { newVisitor } from "./browser";
import { pagePath, signIn, waitUntilIdle, waitUntilVisible } from "./pages";
import { ensureSetUp } from "./service";

test("an unmarked field leads to the trace source, and is marked instead of replaced by another one", async () => {
  await ensureSetUp();
  const { context, page } = await newVisitor("writing a policy");
  await signIn(page, "admin");
  await page.goto(pagePath("/new-role"));
  await page.getByRole("button", { name: "Add a policy" }).click();
  await page.getByRole("textbox", { name: "Expression" }).click();
  await page.keyboard.insertText('SpanAttributes["url.path"] == "/"');
  const diagnostics = page.getByRole("list", { name: "Diagnostics for Expression" });
  const link = diagnostics.getByRole("link", { name: "Mark this field in the trace source" });
  await waitUntilVisible(link);
  await waitUntilIdle(page);
  expect(await diagnostics.getByRole("button", { name: /^Replace with/ }).count()).toBe(0);
  const opened = context.waitForEvent("page");
  await link.click();
  const source = await opened;
  await source.waitForURL((url) => url.searchParams.get("find") === "url.path");
  // Examples of values are read only on request.
  await source.getByRole("button", { name: "Find more fields" }).click();
  await waitUntilVisible(source.getByRole("row").filter({ hasText: "url.path" }));
  await context.close();
});
