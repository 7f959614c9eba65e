import type { Completion, CompletionContext, CompletionResult } from "@codemirror/autocomplete";
import type { EditorView } from "@codemirror/view";
import type { Api } from "../api/client";
import { visible } from "../lib/visible";

/** Names that an expression can use. */
export type Vocabulary = {
  readonly fields: readonly Pick<Api["FieldDescriptor"], "ref" | "type">[];
  readonly attributes: readonly string[];
};

export type Offer = {
  readonly label: string;
  readonly detail: string;
  readonly kind: "field" | "user" | "function" | "keyword";
  /** Text to insert, without the `|`. The cursor is placed `back` characters before its end. */
  readonly text: string;
  readonly back: number;
};

const TYPES: Record<Api["LogicalType"], string> = {
  string: "string",
  string_array: "list of strings",
  boolean: "boolean",
  number: "number",
};

const offer = (kind: Offer["kind"], text: string, detail: string, back = 0, label = text): Offer => ({
  kind,
  text,
  detail,
  back,
  label,
});

const ON_TEXT = [
  offer("function", 'startsWith("")', "begins with the text", 2, "startsWith"),
  offer("function", 'endsWith("")', "ends with the text", 2, "endsWith"),
  offer("function", 'contains("")', "contains the text", 2, "contains"),
  offer("function", 'matches("^")', "matches the pattern", 2, "matches"),
];
const ON_LISTS = [
  offer("function", "exists(v, )", "for some element", 1, "exists"),
  offer("function", "all(v, )", "for every element", 1, "all"),
  offer("function", "exists_one(v, )", "for exactly one element", 1, "exists_one"),
];
const WORDS = [
  offer("function", "has()", "whether a key or an attribute is set", 1, "has"),
  offer("function", "size()", "length of a string or a list", 1, "size"),
  offer("keyword", "in", "one of a list"),
  offer("keyword", "true", "boolean"),
  offer("keyword", "false", "boolean"),
];

const IDENTIFIER = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Reference to a user attribute in an expression. */
export function attributeReference(name: string): string {
  return IDENTIFIER.test(name) ? `user.attributes.${name}` : `user.attributes[${JSON.stringify(name)}]`;
}

function references({ fields, attributes }: Vocabulary): Offer[] {
  return [
    ...fields
      .filter((field) => field.type !== "number")
      .map((field) => offer("field", field.ref, TYPES[field.type], 0, visible(field.ref))),
    ...attributes.map((name) =>
      offer(
        "user",
        attributeReference(name),
        "attribute of the caller",
        0,
        visible(attributeReference(name)),
      ),
    ),
    offer("user", "user.username", "string"),
    offer("user", "user.roles", "list of strings"),
  ];
}

/** A name with its members and keys at the end of a text, the last of which may be incomplete. */
const REFERENCE =
  /[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*|\["[^"\\\n]*"\])*(?:\.|\["?[^"\\\n\]]*)?$/;

/** Returns whether a text ends inside a string, inside a comment, or outside both. */
function openAtEnd(text: string): "string" | "comment" | null {
  const line = text.slice(text.lastIndexOf("\n") + 1);
  let quote: string | null = null;
  for (let at = 0; at < line.length; at += 1) {
    const character = line[at];
    if (quote !== null) {
      if (character === "\\") {
        at += 1;
      } else if (character === quote) {
        quote = null;
      }
    } else if (character === '"' || character === "'") {
      quote = character;
    } else if (character === "/" && line[at + 1] === "/") {
      return "comment";
    }
  }
  return quote === null ? null : "string";
}

/** Returns the completions at the end of a text and the offset from which they replace it, or `null`. */
export function offers(
  before: string,
  vocabulary: Vocabulary,
  asked: boolean,
): { from: number; offers: Offer[] } | null {
  const open = openAtEnd(before);
  const written = REFERENCE.exec(before)?.[0] ?? "";
  // Inside a string, only keys are completed.
  if (open === "comment" || (open === "string" && !/\["[^"]*$/.test(written))) {
    return null;
  }
  const from = before.length - written.length;
  const named = references(vocabulary);
  const longer = named.filter(
    ({ text }) =>
      text !== written &&
      (text.toLowerCase().startsWith(written.toLowerCase()) ||
        // Keys also match without the name of their map.
        (/^\w+$/.test(written) && text.toLowerCase().includes(written.toLowerCase()))),
  );
  if (written === "") {
    return asked ? { from, offers: [...named, ...WORDS] } : null;
  }
  const [, whole, method] = /^(.*)\.([A-Za-z_]*)$/s.exec(written) ?? [];
  if (open === null && whole !== undefined && method !== undefined && longer.length === 0) {
    return { from: before.length - method.length, offers: methods(whole, vocabulary) };
  }
  if (written.includes(".") || written.includes("[")) {
    return longer.length === 0 ? null : { from, offers: longer };
  }
  return { from, offers: [...longer, ...WORDS] };
}

function methods(whole: string, { fields }: Vocabulary): Offer[] {
  const isMap = fields.some((field) => field.ref.startsWith(`${whole}[`));
  if (whole === "user" || whole === "user.attributes" || isMap) {
    return [];
  }
  const type = whole === "user.roles" ? "string_array" : fields.find((field) => field.ref === whole)?.type;
  switch (type) {
    case "string":
      return ON_TEXT;
    case "string_array":
      return ON_LISTS;
    case undefined:
      return [...ON_TEXT, ...ON_LISTS];
    default:
      return [];
  }
}

const KINDS = { field: "variable", user: "property", function: "function", keyword: "keyword" } as const;

/** Inserts a completion, and replaces the automatically closed quote and bracket. */
function apply({ text, back }: Offer) {
  return (view: EditorView, _completion: Completion, from: number, to: number) => {
    const after = view.state.sliceDoc(to, to + 2);
    const closed = text.endsWith('"]') ? (/^"?\]?/.exec(after)?.[0].length ?? 0) : 0;
    view.dispatch({
      changes: { from, to: to + closed, insert: text },
      selection: { anchor: from + text.length - back },
      userEvent: "input.complete",
      scrollIntoView: true,
    });
  };
}

/** Completion source for the editor. The vocabulary is read each time, because it is loaded later. */
export function completionSource(vocabulary: () => Vocabulary) {
  return (context: CompletionContext): CompletionResult | null => {
    const found = offers(context.state.sliceDoc(0, context.pos), vocabulary(), context.explicit);
    if (found === null || found.offers.length === 0) {
      return null;
    }
    return {
      from: found.from,
      options: found.offers.map((one) => ({
        label: one.label,
        detail: one.detail,
        type: KINDS[one.kind],
        boost: one.kind === "keyword" ? -1 : 0,
        apply: apply(one),
      })),
    };
  };
}
