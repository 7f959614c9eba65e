// Pictures of every page, to be looked at by people. The views are those that the browser tests look at, in TypeScript.
import { join } from "node:path";
import { runnerImport } from "vite";

const { module } = await runnerImport(join(import.meta.dirname, "take.ts"), { configFile: false });
await module.take();
