import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";

/** State of a text field whose value is in the URL. It holds the typed text, and calls `onAsk` when typing pauses.
 *
 * The value that comes back from the URL does not overwrite text that was typed in the meantime. Another value does, as after
 * the browser's back button. */
export function useTypedText(
  value: string | undefined,
  onAsk: (value: string | undefined) => void,
  pause: number,
) {
  const [text, setText] = useState(value ?? "");
  const asked = useRef(value);
  useEffect(() => {
    if (value !== asked.current) {
      asked.current = value;
      setText(value ?? "");
    }
  }, [value]);
  const ask = useDebouncedCallback((text: string) => {
    const next = text.trim() === "" ? undefined : text.trim();
    asked.current = next;
    onAsk(next);
  }, pause);
  return {
    text,
    type: (text: string) => {
      setText(text);
      ask(text);
    },
    now: (text: string) => {
      setText(text);
      ask(text);
      ask.flush();
    },
  };
}
