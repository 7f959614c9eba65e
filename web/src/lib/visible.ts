/** A piece of text: as it is, or the name of a character that would not be seen or would deceive. */
export type Piece = { readonly text: string; readonly hidden: boolean };

/** Control characters but for tab and line feed, separators of lines and paragraphs, notes between lines, blanks that are no
 * spaces, lone surrogates, and whatever Unicode says is drawn as nothing: bidirectional controls, joiners, tags, selectors of
 * variants. One of these is left: it makes an emoji of the character before it. */
export const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /(?!\ufe0f)[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\u2800\ufff9-\ufffc\u{13441}\u{13442}\u{1d159}\p{Default_Ignorable_Code_Point}]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/gu;

function name(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Cuts text from spans so that what it hides can be shown by its name. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > end) {
      found.push({ text: text.slice(end, match.index), hidden: false });
    }
    found.push({ text: name(match[0]), hidden: true });
    end = match.index + match[0].length;
  }
  if (end < text.length || found.length === 0) {
    found.push({ text: text.slice(end), hidden: false });
  }
  return found;
}

/** The same as one text, for titles and labels that take no elements. */
export function visible(text: string): string {
  return pieces(text)
    .map((piece) => (piece.hidden ? `⟨${piece.text}⟩` : piece.text))
    .join("");
}
