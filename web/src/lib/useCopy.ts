import { notifications } from "@mantine/notifications";
import { useEffect, useRef, useState } from "react";

/** Duration of the confirmation in milliseconds. */
const CONFIRMATION_MS = 1_500;

/** Copies a text and returns whether it was copied. Shows a notification if the browser does not permit it, as without HTTPS. */
export async function copyText(text: string): Promise<boolean> {
  try {
    // `clipboard` is absent on insecure connections, whatever its type says.
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    notifications.show({
      color: "red",
      title: "Not copied",
      message: "The browser did not permit it. Select the text and copy it manually.",
    });
    return false;
  }
}

/** Copies text for a button that shows a short confirmation. */
export function useCopy(): { copied: boolean; copy: (text: string) => Promise<void> } {
  const [copied, setCopied] = useState(false);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return {
    copied,
    copy: async (text) => {
      const success = await copyText(text);
      clearTimeout(timer.current);
      setCopied(success);
      if (success) {
        timer.current = setTimeout(() => setCopied(false), CONFIRMATION_MS);
      }
    },
  };
}
