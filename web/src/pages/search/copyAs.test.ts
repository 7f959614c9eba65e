import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { LosslessNumber } from "../../lib/json";
import { shellWord } from "../../lib/shell";
import { curlOf, plainJson } from "./copyAs";

const window = { from: "2026-11-21T23:00:00Z", to: "2026-11-22T00:00:00Z" };

describe("a search as a command", () => {
  it("sends the same body", () => {
    const question = { conditions: [{ name: "ServiceName", op: "eq", value: "check'out" }], window };
    const command = curlOf(question, "https://traces.example.com");
    const out = execFileSync("sh", ["-c", `curl() { for word; do :; done; printf %s "$word"; }\n${command}`]);
    expect(JSON.parse(out.toString())).toEqual({
      filter: { conditions: question.conditions },
      ...window,
      view: "summary",
      limit: 100,
    });
    expect(command).toContain("$TRACEWARDEN_API_KEY");
  });

  it("runs nothing that a value says", () => {
    for (const value of ["'; echo harm; '", "$(echo harm)", "`echo harm`", "\n echo harm", "\\", "\\'"]) {
      const out = execFileSync("sh", ["-c", `printf %s ${shellWord(plainJson(value))}`]).toString();
      expect(JSON.parse(out)).toBe(value);
    }
  });

  it("shows what would not be seen, and keeps large integers", () => {
    expect(plainJson(["\u202ea\u001b[31m😀", new LosslessNumber("9223372036854775807")])).toBe(
      '["\\u202ea\\u001b[31m\\ud83d\\ude00",9223372036854775807]',
    );
  });
});
