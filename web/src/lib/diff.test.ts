import { describe, expect, it } from "vitest";
import { diffLines, diffWords, hunks } from "./diff";

describe("differences of a text", () => {
  it("are found by word", () => {
    expect(diffWords('S == "a"', 'S == "b" && x')).toEqual([
      { kind: "same", text: 'S == "' },
      { kind: "removed", text: "a" },
      { kind: "added", text: "b" },
      { kind: "same", text: '"' },
      { kind: "added", text: " && x" },
    ]);
  });

  it("of long texts are the whole texts, except for their common start and end", () => {
    expect(diffWords("a ".repeat(500), "b").map(({ kind }) => kind)).toEqual(["removed", "added"]);
    const long = (word: string) => `x ${`${word} `.repeat(1_000)}y`;
    expect(diffWords(long("a"), long("b")).map(({ kind }) => kind)).toEqual([
      "same",
      "removed",
      "added",
      "same",
    ]);
  });
});

const marked = { same: " ", added: "+", removed: "-" };
const hunkText = (before: string, after: string) =>
  diffLines(before, after).map(({ kind, text }) => marked[kind] + text);

describe("differences by lines", () => {
  it.each([
    ["a\nb\nc\n", "a\nx\nc\n", [" a", "-b", "+x", " c"]],
    ["", "a\nb", ["+a", "+b"]],
    ["a\n", "", ["-a"]],
    ["", "", []],
    ["a\nb", "a\nb\n", [" a", " b"]],
    ["a\na\nb", "a\nb", [" a", "-a", " b"]],
  ])("%j to %j", (before, after, lines) => expect(hunkText(before, after)).toEqual(lines));

  it("reconstruct both texts, for random texts", () => {
    let state = 7;
    const random = (below: number) => {
      state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
      return Math.floor((state / 2_147_483_648) * below);
    };
    const text = () => Array.from({ length: random(9) }, () => "abc"[random(3)]).join("\n");
    for (let round = 0; round < 500; round += 1) {
      const [before, after] = [text(), text()];
      const result = diffLines(before, after);
      const side = (without: string) =>
        result.flatMap(({ kind, text }) => (kind === without ? [] : [text])).join("\n");
      expect([side("added"), side("removed")]).toEqual([before, after]);
    }
  });

  it("skip unchanged lines, except for a few around each change", () => {
    const before = Array.from({ length: 20 }, (_, index) => `line ${index}`).join("\n");
    const shownHunks = hunks(diffLines(before, before.replace("line 10", "other")), 2);
    expect(
      shownHunks.map((hunk) => ("line" in hunk ? marked[hunk.line.kind] + hunk.line.text : hunk.skipped)),
    ).toEqual([8, " line 8", " line 9", "-line 10", "+other", " line 11", " line 12", 7]);
    expect(hunks(diffLines("a\nb", "a\nb"))).toEqual([{ skipped: 2 }]);
  });
});
