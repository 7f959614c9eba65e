/** A piece of text: unchanged, or the name of an invisible or misleading character. */
export type TextPart = { readonly text: string; readonly hidden: boolean };

/** Control characters except tab and line feed, line and paragraph separators, interlinear annotations, blanks that are not
 * spaces, lone surrogates, and all default-ignorable code points of Unicode: bidirectional controls, joiners, tags, variation
 * selectors. U+FE0F is excluded, because it turns the preceding character into an emoji. */
export const HIDDEN_CHARACTERS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the expression finds these characters
  /(?!\ufe0f)[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u2800\ufff9-\ufffc\u{13441}\u{13442}\u{1d159}\p{Default_Ignorable_Code_Point}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

function characterName(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** The beginning of a text that is longer than `maxLength`. */
export function truncate(text: string, maxLength = Number.POSITIVE_INFINITY): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}

/** Splits text from spans so that invisible characters can be shown by name. */
export function splitHiddenCharacters(text: string): TextPart[] {
  const parts: TextPart[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN_CHARACTERS)) {
    if (match.index > end) {
      parts.push({ text: text.slice(end, match.index), hidden: false });
    }
    parts.push({ text: characterName(match[0]), hidden: true });
    end = match.index + match[0].length;
  }
  if (end < text.length || parts.length === 0) {
    parts.push({ text: text.slice(end), hidden: false });
  }
  return parts;
}

/** The same as one text, for titles and labels, which cannot contain elements. */
export function sanitize(text: string): string {
  return splitHiddenCharacters(text)
    .map((part) => (part.hidden ? `⟨${part.text}⟩` : part.text))
    .join("");
}
