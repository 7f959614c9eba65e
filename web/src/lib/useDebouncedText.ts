import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";
import { useIsLeaving } from "./useIsLeaving";

/** State of a text field whose value is in the URL. It holds the typed text, and calls `onChange` when typing pauses.
 *
 * The value that comes back from the URL does not overwrite text that was typed in the meantime. Another value does, as after
 * the browser's back button. */
export function useDebouncedText(
  value: string | undefined,
  onChange: (value: string | undefined) => void,
  delayMs: number,
) {
  const [text, setText] = useState(value ?? "");
  const lastSent = useRef(value);
  const isLeaving = useIsLeaving();
  useEffect(() => {
    if (value !== lastSent.current) {
      lastSent.current = value;
      setText(value ?? "");
    }
  }, [value]);
  const send = useDebouncedCallback((text: string) => {
    if (isLeaving()) {
      return;
    }
    const next = text.trim() === "" ? undefined : text.trim();
    lastSent.current = next;
    onChange(next);
  }, delayMs);
  return {
    text,
    change: (text: string) => {
      setText(text);
      send(text);
    },
    commit: (text: string) => {
      setText(text);
      send(text);
      send.flush();
    },
  };
}
