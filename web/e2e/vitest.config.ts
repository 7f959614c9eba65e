import { basename } from "node:path";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Setting up by hand comes first, since it needs a service on which nothing was done. */
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
    // One service and one browser, which also measure times.
    fileParallelism: false,
    sequence: { sequencer: InOrder },
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // As long as the browser is waited for; only a test that fails waits for so long.
    expect: { poll: { timeout: 15_000 } },
    // Tests of a file tell one story: what follows a failure would only fail for the same reason.
    bail: 0,
    reporters: ["verbose"],
  },
});
