import { expect, test } from "vitest";
import { visitor } from "./browser";
import { at, logIn, quiet } from "./pages";
import { ensureSetUp, READER } from "./service";

const MOST = 350_000;

test.each(["sign-in", "search"])("the scripts of the first page are small: %s", async (which) => {
  await ensureSetUp();
  const { context, page } = await visitor(`weight of ${which}`);
  if (which === "search") {
    await logIn(page, READER);
  }
  // A new page without loaded resources and without cache.
  const fresh = await context.newPage();
  const session = await context.newCDPSession(fresh);
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
  await fresh.goto(at(which === "search" ? "/search" : "/login"));
  await quiet(fresh);
  let sum = 0;
  for (const [id, path] of scripts) {
    const size = sizes.get(id) ?? 0;
    sum += size;
    console.log(`${String(size).padStart(8)}  ${path}`);
  }
  console.log(`${String(sum).padStart(8)}  bytes of scripts for ${which}, as transferred`);
  expect(scripts.size).toBeGreaterThan(0);
  expect(sum).toBeLessThan(MOST);
});
