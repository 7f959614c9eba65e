import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { quoteShellWord } from "./shell";

describe("a shell word", () => {
  it.each([
    "",
    "plain",
    "two words",
    "it's",
    "'; echo harm; '",
    "$(echo harm) `echo harm` $HOME",
    "a\nline",
    "\\",
    "\\'",
    "-n",
  ])("evaluates to the original text: %j", (text) => {
    expect(execFileSync("sh", ["-c", `printf %s. ${quoteShellWord(text)}`]).toString()).toBe(`${text}.`);
  });
});
