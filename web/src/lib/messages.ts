import { sanitize } from "./sanitize";

/** A part of a message: plain text, or code that the service has put in backticks. */
export type MessagePart = { readonly text: string; readonly code: boolean };

/** Splits a message of the service at its code in backticks. Backticks in quoted values are part of the values. */
export function messageParts(message: string): MessagePart[] {
  const parts: MessagePart[] = [];
  let end = 0;
  for (const { 0: match, 1: code, index } of message.matchAll(/"(?:[^"\\]|\\.)*"|`([^`]+)`/g)) {
    if (code !== undefined) {
      parts.push({ text: message.slice(end, index), code: false }, { text: code, code: true });
      end = index + match.length;
    }
  }
  parts.push({ text: message.slice(end), code: false });
  return parts.filter(({ text }) => text !== "");
}

/** A message without its backticks, for titles and labels, which cannot contain elements. */
export function plainMessage(message: string): string {
  return sanitize(
    messageParts(message)
      .map(({ text }) => text)
      .join(""),
  );
}
