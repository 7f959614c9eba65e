import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";
import type { Api } from "../api/client";
import { sanitize } from "../lib/sanitize";

/** Names that an expression can use. */
export type Vocabulary = {
  readonly fields: readonly Pick<Api["FieldDescriptor"], "ref" | "type">[];
  readonly attributes: readonly string[];
};

export type CompletionItem = {
  readonly label: string;
  readonly detail: string;
  readonly kind: "field" | "user" | "function" | "keyword";
  /** Text to insert, without the `|`. The cursor is placed `cursorBack` characters before its end. */
  readonly text: string;
  readonly cursorBack: number;
};

const TYPE_LABELS: Record<Api["LogicalType"], string> = {
  string: "string",
  string_array: "list of strings",
  boolean: "boolean",
  number: "number",
};

const completionItem = (
  kind: CompletionItem["kind"],
  text: string,
  detail: string,
  cursorBack = 0,
  label = text,
): CompletionItem => ({
  kind,
  text,
  detail,
  cursorBack,
  label,
});

const STRING_METHODS = [
  completionItem("function", 'startsWith("")', "begins with the text", 2, "startsWith"),
  completionItem("function", 'endsWith("")', "ends with the text", 2, "endsWith"),
  completionItem("function", 'contains("")', "contains the text", 2, "contains"),
  completionItem("function", 'matches("^")', "matches the pattern", 2, "matches"),
];
const LIST_METHODS = [
  completionItem("function", "exists(v, )", "for some element", 1, "exists"),
  completionItem("function", "all(v, )", "for every element", 1, "all"),
  completionItem("function", "exists_one(v, )", "for exactly one element", 1, "exists_one"),
];
const FUNCTIONS_AND_KEYWORDS = [
  completionItem("function", "has()", "whether a key or an attribute is set", 1, "has"),
  completionItem("function", "size()", "length of a string or a list", 1, "size"),
  completionItem("keyword", "in", "one of a list"),
  completionItem("keyword", "true", "boolean"),
  completionItem("keyword", "false", "boolean"),
];

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Reference to a user attribute in an expression. */
export function attributeReference(name: string): string {
  return IDENTIFIER.test(name) ? `user.attributes.${name}` : `user.attributes[${JSON.stringify(name)}]`;
}

function references({ fields, attributes }: Vocabulary): CompletionItem[] {
  return [
    ...fields
      .filter((field) => field.type !== "number")
      .map((field) => completionItem("field", field.ref, TYPE_LABELS[field.type], 0, sanitize(field.ref))),
    ...attributes.map((name) =>
      completionItem(
        "user",
        attributeReference(name),
        "attribute of the caller",
        0,
        sanitize(attributeReference(name)),
      ),
    ),
    completionItem("user", "user.username", "string"),
    completionItem("user", "user.roles", "list of strings"),
  ];
}

/** A name with its members and keys at the end of a text, the last of which may be incomplete. */
const REFERENCE =
  /[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\["[^"\\\n]*"\])*(?:\.|\["?[^"\\\n\]]*)?$/;

/** Returns whether a text ends inside a string, inside a comment, or outside both. */
function contextAtEnd(text: string): "string" | "comment" | null {
  const line = text.slice(text.lastIndexOf("\n") + 1);
  let quote: string | null = null;
  for (let index = 0; index < line.length; index += 1) {
    const character = line[index];
    if (quote !== null) {
      if (character === "\\") {
        index += 1;
      } else if (character === quote) {
        quote = null;
      }
    } else if (character === '"' || character === "'") {
      quote = character;
    } else if (character === "/" && line[index + 1] === "/") {
      return "comment";
    }
  }
  return quote === null ? null : "string";
}

/** Returns the completions at the end of a text and the offset from which they replace it, or `null`. */
export function completionsAtEnd(
  before: string,
  vocabulary: Vocabulary,
  explicit: boolean,
): { from: number; items: CompletionItem[] } | null {
  const context = contextAtEnd(before);
  const reference = REFERENCE.exec(before)?.[0] ?? "";
  // Inside a string, only keys are completed.
  if (context === "comment" || (context === "string" && !/\["[^"]*$/.test(reference))) {
    return null;
  }
  const from = before.length - reference.length;
  const allReferences = references(vocabulary);
  const matches = allReferences.filter(
    ({ text }) =>
      text !== reference &&
      (text.toLowerCase().startsWith(reference.toLowerCase()) ||
        // Keys also match without the name of their map.
        (/^\w+$/.test(reference) && text.toLowerCase().includes(reference.toLowerCase()))),
  );
  if (reference === "") {
    return explicit ? { from, items: [...allReferences, ...FUNCTIONS_AND_KEYWORDS] } : null;
  }
  const [, receiver, method] = /^(.*)\.([A-Za-z_]*)$/s.exec(reference) ?? [];
  if (context === null && receiver !== undefined && method !== undefined && matches.length === 0) {
    return { from: before.length - method.length, items: methodsOf(receiver, vocabulary) };
  }
  if (reference.includes(".") || reference.includes("[")) {
    return matches.length === 0 ? null : { from, items: matches };
  }
  return { from, items: [...matches, ...FUNCTIONS_AND_KEYWORDS] };
}

function methodsOf(receiver: string, { fields }: Vocabulary): CompletionItem[] {
  const isMap = fields.some((field) => field.ref.startsWith(`${receiver}[`));
  if (receiver === "user" || receiver === "user.attributes" || isMap) {
    return [];
  }
  const type =
    receiver === "user.roles" ? "string_array" : fields.find((field) => field.ref === receiver)?.type;
  switch (type) {
    case "string":
      return STRING_METHODS;
    case "string_array":
      return LIST_METHODS;
    case undefined:
      return [...STRING_METHODS, ...LIST_METHODS];
    default:
      return [];
  }
}

const COMPLETION_TYPES = {
  field: "variable",
  user: "property",
  function: "function",
  keyword: "keyword",
} as const;

/** Inserts a completion, and replaces the automatically closed quote and bracket. */
function apply({ text, cursorBack }: CompletionItem) {
  return (view: EditorView, _completion: Completion, from: number, to: number) => {
    const after = view.state.sliceDoc(to, to + 2);
    const closedLength = text.endsWith('"]') ? (/^"?\]?/.exec(after)?.[0].length ?? 0) : 0;
    view.dispatch({
      changes: { from, to: to + closedLength, insert: text },
      selection: { anchor: from + text.length - cursorBack },
      userEvent: "input.complete",
      scrollIntoView: true,
    });
  };
}

/** Completion source for the editor. The vocabulary is read each time, because it is loaded later. */
export function completionSource(vocabulary: () => Vocabulary) {
  return (context: CompletionContext): CompletionResult | null => {
    const completions = completionsAtEnd(
      context.state.sliceDoc(0, context.pos),
      vocabulary(),
      context.explicit,
    );
    if (completions === null || completions.items.length === 0) {
      return null;
    }
    return {
      from: completions.from,
      options: completions.items.map((item) => ({
        label: item.label,
        detail: item.detail,
        type: COMPLETION_TYPES[item.kind],
        boost: item.kind === "keyword" ? -1 : 0,
        apply: apply(item),
      })),
    };
  };
}
