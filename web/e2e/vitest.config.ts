import { basename } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** The setup test runs first, because it needs an unconfigured service. */
const FIRST = ["setup.test.ts", "search.test.ts", "trace.test.ts", "access.test.ts"];

class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = (file: TestSpecification) => {
      const place = FIRST.indexOf(basename(file.moduleId));
      return place === -1 ? FIRST.length : place;
    };
    return [...files].sort(
      (one, other) => place(one) - place(other) || one.moduleId.localeCompare(other.moduleId),
    );
  }
}

export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["**/*.test.ts"],
    globalSetup: ["./globalSetup.ts"],
    setupFiles: ["./everyTest.ts"],
    // All tests share one service and one browser, and some measure times.
    fileParallelism: false,
    sequence: { sequencer: InOrder },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Same time-out as for the browser. Only a failing test waits this long.
    expect: { poll: { timeout: 15_000 } },
    // The tests of a file depend on each other: after a failure, the following ones would fail for the same reason.
    bail: 0,
    reporters: ["verbose"],
  },
});
