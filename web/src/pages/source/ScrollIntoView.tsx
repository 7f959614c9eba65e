import { type ReactNode, useEffect, useRef } from "react";

/** A notice that scrolls into view and takes the focus when `trigger` changes, because the button that caused it is at the other end
 * of the page. */
export function ScrollIntoView({ trigger, children }: { trigger: unknown; children: ReactNode }) {
  const container = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (trigger !== null && trigger !== undefined) {
      container.current?.focus({ preventScroll: true });
      container.current?.scrollIntoView({ block: "center" });
    }
  }, [trigger]);
  return (
    <div ref={container} tabIndex={-1} style={{ outline: "none" }}>
      {children}
    </div>
  );
}
