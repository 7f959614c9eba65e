import { chromium } from "playwright-core";
import type { TestProject } from "vitest/node";
import { environment } from "./environment";

declare module "vitest" {
  export interface ProvidedContext {
    browser: string;
  }
}

/** Checks that the service is available, and starts the browser that all tests share. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { url, chromium: executablePath } = environment();
  await checkResponds(`${url}/readyz`);
  await checkResponds(`${url}/ui/`);
  const server = await chromium.launchServer({
    executablePath,
    // Chromium's sandbox does not work for root, which runs the tests in containers.
    chromiumSandbox: process.getuid?.() !== 0,
    args: ["--js-flags=--expose-gc"],
  });
  project.provide("browser", server.wsEndpoint());
  return () => server.close();
}

async function checkResponds(url: string): Promise<void> {
  const response = await fetch(url).catch((error: unknown) => error);
  if (!(response instanceof Response) || !response.ok) {
    const reason =
      response instanceof Response ? `status ${response.status}: ${await response.text()}` : String(response);
    throw new Error(`${url} does not respond successfully (${reason})`);
  }
}
