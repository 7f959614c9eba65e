import { Code } from "@mantine/core";
import { messageParts } from "../lib/messages";
import { truncate } from "../lib/sanitize";
import { SanitizedText } from "./SanitizedText";

/** A message of the service, with text in backticks as code. It may contain text from spans. */
export function Message({ text, maxLength }: { text: string; maxLength?: number }) {
  return messageParts(truncate(text, maxLength)).map((part, index) => {
    const key = `${index} ${part.text}`;
    return part.code ? (
      <Code key={key}>
        <SanitizedText text={part.text} />
      </Code>
    ) : (
      <SanitizedText key={key} text={part.text} />
    );
  });
}
