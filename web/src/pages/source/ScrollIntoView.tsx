import { type ReactNode, useEffect, useRef } from "react";

/** A notice that scrolls into view and takes the focus when `of` changes, because the button that caused it is at the other end
 * of the page. */
export function IntoView({ of, children }: { of: unknown; children: ReactNode }) {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (of !== null && of !== undefined) {
      place.current?.focus({ preventScroll: true });
      place.current?.scrollIntoView({ block: "center" });
    }
  }, [of]);
  return (
    <div ref={place} tabIndex={-1} style={{ outline: "none" }}>
      {children}
    </div>
  );
}
