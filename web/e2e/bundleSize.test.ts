import { expect, test } from "vitest";
import { newVisitor } from "./browser";
import { pagePath, signIn, waitUntilIdle } from "./pages";
import { ensureSetUp, READER } from "./service";

const MAX_BYTES = 350_000;

test.each(["sign-in", "search"])("the scripts of the first page are small: %s", async (which) => {
  await ensureSetUp();
  const { context, page } = await newVisitor(`weight of ${which}`);
  if (which === "search") {
    await signIn(page, READER);
  }
  // A new page without loaded resources and without cache.
  const newPage = await context.newPage();
  const session = await context.newCDPSession(newPage);
  await session.send("Network.enable");
  await session.send("Network.setCacheDisabled", { cacheDisabled: true });
  const scripts = new Map<string, string>();
  const sizes = new Map<string, number>();
  session.on("Network.responseReceived", ({ requestId, type, response }) => {
    if (type === "Script") {
      scripts.set(requestId, new URL(response.url).pathname);
    }
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    sizes.set(requestId, encodedDataLength);
  });
  await newPage.goto(pagePath(which === "search" ? "/search" : "/login"));
  await waitUntilIdle(newPage);
  let sum = 0;
  for (const [id, path] of scripts) {
    const size = sizes.get(id) ?? 0;
    sum += size;
    console.log(`${String(size).padStart(8)}  ${path}`);
  }
  console.log(`${String(sum).padStart(8)}  bytes of scripts for ${which}, as transferred`);
  expect(scripts.size).toBeGreaterThan(0);
  expect(sum).toBeLessThan(MAX_BYTES);
});
