import { splitHiddenCharacters, truncate } from "../lib/sanitize";
import classes from "./SanitizedText.module.css";

/** Text from spans: invisible characters are shown by name, and bidirectional text is isolated. */
export function SanitizedText({ text, maxLength }: { text: string; maxLength?: number }) {
  return (
    <bdi className={classes.text}>
      {splitHiddenCharacters(truncate(text, maxLength)).map((part, index) =>
        part.hidden ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one text have no other identity
          <span key={index} className={classes.hidden} title="invisible or misleading character">
            {part.text}
          </span>
        ) : (
          part.text
        ),
      )}
    </bdi>
  );
}
