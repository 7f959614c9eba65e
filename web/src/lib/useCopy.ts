import { notifications } from "@mantine/notifications";
import { useEffect, useRef, useState } from "react";

/** Milliseconds for which it is said that a text was copied. */
const SAID = 1_500;

/** Copies a text; says so when the browser does not allow that, as without HTTPS. Whether it was copied. */
export async function copyText(text: string): Promise<boolean> {
  try {
    // Absent where the connection is not a secure one, whatever its type says.
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    notifications.show({
      color: "red",
      title: "Not copied",
      message: "The browser did not allow it. Mark the text and copy it by hand.",
    });
    return false;
  }
}

/** Copying for a button that says for a moment that it did. */
export function useCopy(): { copied: boolean; copy: (text: string) => Promise<void> } {
  const [copied, setCopied] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return {
    copied,
    copy: async (text) => {
      const done = await copyText(text);
      clearTimeout(timer.current);
      setCopied(done);
      if (done) {
        timer.current = setTimeout(() => setCopied(false), SAID);
      }
    },
  };
}
