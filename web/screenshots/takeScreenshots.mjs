// Takes screenshots of every page for visual review. The views are those of the browser tests, which are written in TypeScript.
import { join } from "node:path";
import { runnerImport } from "vite";

const { module } = await runnerImport(join(import.meta.dirname, "takeScreenshots.ts"), { configFile: false });
await module.takeScreenshots();
