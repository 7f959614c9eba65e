import { HighlightStyle, StreamLanguage, type StringStream } from "@codemirror/language";
import { tags } from "@lezer/highlight";

type StringState = { readonly quote: string; readonly raw: boolean };
type State = { string: StringState | null; afterDot: boolean };

/** Functions and macros of policies, called on a value. */
export const METHODS = ["startsWith", "endsWith", "contains", "matches", "exists", "all", "exists_one"];
const FUNCTIONS = ["has", "size"];

/** Reads a string up to its end, or up to the end of the line. */
function readString(stream: StringStream, state: State, string: StringState): string {
  while (!stream.eol()) {
    if (stream.match(string.quote)) {
      state.string = null;
      return "string";
    }
    if (stream.next() === "\\" && !string.raw) {
      stream.next();
    }
  }
  // Only strings with triple quotes continue on the next line.
  if (string.quote.length === 1) {
    state.string = null;
  }
  return "string";
}

/** Reads one CEL token and returns its highlighting tag. */
function token(stream: StringStream, state: State): string | null {
  if (state.string !== null) {
    return readString(stream, state, state.string);
  }
  if (stream.eatSpace()) {
    return null;
  }
  if (stream.match("//")) {
    stream.skipToEnd();
    return "lineComment";
  }
  const openingQuote = stream.match(/^([rRbB]{0,2})("""|'''|"|')/);
  if (openingQuote !== null && typeof openingQuote !== "boolean") {
    state.string = { quote: openingQuote[2] ?? '"', raw: /r/i.test(openingQuote[1] ?? "") };
    state.afterDot = false;
    return readString(stream, state, state.string);
  }
  const word = stream.match(/^[A-Za-z_][A-Za-z0-9_]*/);
  if (word !== null && typeof word !== "boolean") {
    const afterDot = state.afterDot;
    state.afterDot = false;
    return identifierTag(word[0], afterDot, stream.match(/^\s*\(/, false) !== null);
  }
  if (stream.match(/^\d[A-Za-z0-9]*(\.\d+)?/)) {
    state.afterDot = false;
    return "number";
  }
  if (stream.match(/^(&&|\|\||==|!=|<=|>=|[!<>?:])/)) {
    state.afterDot = false;
    return "operator";
  }
  const character = stream.next();
  state.afterDot = character === ".";
  return character !== undefined && character !== null && "()[]{},.".includes(character)
    ? "punctuation"
    : null;
}

function identifierTag(word: string, afterDot: boolean, isCall: boolean): string {
  if (afterDot) {
    return isCall && METHODS.includes(word) ? "propertyName.function" : "propertyName";
  }
  if (isCall && FUNCTIONS.includes(word)) {
    return "variableName.function";
  }
  switch (word) {
    case "true":
    case "false":
    case "null":
      return "bool";
    case "in":
      return "operatorKeyword";
    case "user":
      return "variableName.special";
    default:
      return "variableName";
  }
}

/** The CEL dialect of policies. */
export const cel = StreamLanguage.define<State>({
  name: "cel",
  startState: () => ({ string: null, afterDot: false }),
  copyState: (state) => ({ ...state }),
  token,
  languageData: {
    commentTokens: { line: "//" },
    closeBrackets: { brackets: ["(", "[", '"'] },
  },
});

/** Colours with a contrast of at least 4.5:1 on the editor's background, in both themes. */
export const celHighlightStyle = HighlightStyle.define([
  { tag: tags.string, color: "light-dark(#2b6a30, #8fd694)" },
  { tag: tags.lineComment, color: "var(--tw-text-secondary)", fontStyle: "italic" },
  { tag: tags.number, color: "light-dark(#8a4b00, #ffc078)" },
  { tag: tags.bool, color: "light-dark(#8a4b00, #ffc078)" },
  { tag: tags.operator, color: "light-dark(#7a2a8f, #e0a9f0)" },
  { tag: tags.operatorKeyword, color: "light-dark(#7a2a8f, #e0a9f0)", fontWeight: "600" },
  { tag: tags.special(tags.variableName), color: "light-dark(#a61e4d, #faa2c1)" },
  { tag: tags.function(tags.propertyName), color: "light-dark(#0b5a9d, #8ec7ff)" },
  { tag: tags.function(tags.variableName), color: "light-dark(#0b5a9d, #8ec7ff)" },
]);
