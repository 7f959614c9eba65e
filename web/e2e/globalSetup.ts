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
  await serves(`${url}/readyz`);
  await serves(`${url}/ui/`);
  const server = await chromium.launchServer({
    executablePath,
    // Chromium's sandbox does not work for root, which runs the tests in containers.
    chromiumSandbox: process.getuid?.() !== 0,
    args: ["--js-flags=--expose-gc"],
  });
  project.provide("browser", server.wsEndpoint());
  return () => server.close();
}

async function serves(url: string): Promise<void> {
  const answer = await fetch(url).catch((error: unknown) => error);
  if (!(answer instanceof Response) || !answer.ok) {
    const what =
      answer instanceof Response ? `status ${answer.status}: ${await answer.text()}` : String(answer);
    throw new Error(`${url} does not respond successfully (${what})`);
  }
}
