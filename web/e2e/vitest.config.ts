import { basename } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { VERIFY } from "./environment";

/** The setup test runs first, because it needs an unconfigured service. */
const FIRST_FILES = ["setup.test.ts", "search.test.ts", "trace.test.ts", "access.test.ts"];

class FixedOrderSequencer extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = (file: TestSpecification) => {
      const index = FIRST_FILES.indexOf(basename(file.moduleId));
      return index === -1 ? FIRST_FILES.length : index;
    };
    return [...files].sort((a, b) => rank(a) - rank(b) || a.moduleId.localeCompare(b.moduleId));
  }
}

export default defineConfig({
  test: {
    root: import.meta.dirname,
    // `cargo xtask verify` runs only what `cargo xtask test` leaves out. Measurements need minutes, and a machine without other work.
    include: VERIFY ? ["views.test.ts", "performance.test.ts"] : ["**/*.test.ts"],
    exclude: VERIFY ? [] : ["performance.test.ts"],
    globalSetup: ["./globalSetup.ts"],
    setupFiles: ["./testHooks.ts"],
    // All tests share one service and one browser, and some measure times.
    fileParallelism: false,
    sequence: { sequencer: FixedOrderSequencer },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Same time-out as for the browser. Only a failing test waits this long.
    expect: { poll: { timeout: 15_000 } },
    // The tests of a file depend on each other: after a failure, the following ones would fail for the same reason.
    bail: 0,
    reporters: ["verbose"],
  },
});
