import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";

/** A text field whose value is in the address: it holds what is typed, and asks when typing pauses.
 *
 * What comes back from the address does not overwrite what was typed in the meantime; another value does, as when one
 * goes back. */
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
