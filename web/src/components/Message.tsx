import { Code } from "@mantine/core";
import { messageParts } from "../lib/messages";
import { Visible } from "./Visible";

/** A message of the service, with text in backticks as code. It may contain text from spans. */
export function Message({ text, most }: { text: string; most?: number }) {
  const shown = most !== undefined && text.length > most ? `${text.slice(0, most)}…` : text;
  return messageParts(shown).map((part, place) => {
    const key = `${place} ${part.text}`;
    return part.code ? (
      <Code key={key}>
        <Visible text={part.text} />
      </Code>
    ) : (
      <Visible key={key} text={part.text} />
    );
  });
}
