import { highlightTree, tagHighlighter, tags } from "@lezer/highlight";
import { describe, expect, it } from "vitest";
import { cel } from "./cel";

const names = tagHighlighter([
  { tag: tags.string, class: "string" },
  { tag: tags.lineComment, class: "comment" },
  { tag: tags.number, class: "number" },
  { tag: tags.bool, class: "bool" },
  { tag: tags.operator, class: "operator" },
  { tag: tags.operatorKeyword, class: "in" },
  { tag: tags.special(tags.variableName), class: "user" },
  { tag: tags.function(tags.propertyName), class: "function" },
  { tag: tags.function(tags.variableName), class: "function" },
]);

function highlight(text: string): [string, string][] {
  const tokens: [string, string][] = [];
  highlightTree(cel.parser.parse(text), names, (from, to, name) => tokens.push([text.slice(from, to), name]));
  return tokens;
}

describe("CEL highlighting", () => {
  it("distinguishes names, functions, strings and operators", () => {
    expect(highlight('ServiceName.startsWith("a") && size(user.roles) > 1')).toEqual([
      ["startsWith", "function"],
      ['"a"', "string"],
      ["&&", "operator"],
      ["size", "function"],
      ["user", "user"],
      [">", "operator"],
      ["1", "number"],
    ]);
  });

  it("recognises raw strings, in which a backslash is literal", () => {
    expect(highlight('r"\\" in x')).toEqual([
      ['r"\\"', "string"],
      ["in", "in"],
    ]);
  });

  it("continues only triple-quoted strings over several lines", () => {
    expect(highlight('"""a\n"b""" == true')).toEqual([
      ['"""a', "string"],
      ['"b"""', "string"],
      ["==", "operator"],
      ["true", "bool"],
    ]);
    expect(highlight('"a\nfalse')).toEqual([
      ['"a', "string"],
      ["false", "bool"],
    ]);
  });

  it("does not highlight a member that is named like a keyword", () => {
    expect(highlight("x.user == y // in")).toEqual([
      ["==", "operator"],
      ["// in", "comment"],
    ]);
  });
});
