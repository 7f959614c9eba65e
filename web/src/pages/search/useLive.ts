import { useEffect, useRef } from "react";

/** Time between two searches. */
const INTERVAL_MS = 10_000;
/** Live mode stops after this long without input: the searches of a forgotten window would keep an idle session alive. */
const IDLE_MS = 10 * 60_000;

/** Repeats a search while `isOn`, whenever `isReady` and the window is visible. */
export function useLive(isOn: boolean, isReady: () => boolean, run: () => void, onIdle: () => void): void {
  const latest = useRef({ isReady, run, onIdle });
  useEffect(() => {
    latest.current = { isReady, run, onIdle };
  });
  useEffect(() => {
    if (!isOn) {
      return;
    }
    let lastInput = Date.now();
    const recordInput = () => {
      lastInput = Date.now();
    };
    const events = ["pointermove", "pointerdown", "keydown", "wheel"] as const;
    for (const event of events) {
      window.addEventListener(event, recordInput, { passive: true, capture: true });
    }
    const timer = setInterval(() => {
      const { isReady, run, onIdle } = latest.current;
      if (Date.now() - lastInput > IDLE_MS) {
        onIdle();
      } else if (isReady() && !document.hidden) {
        run();
      }
    }, INTERVAL_MS);
    return () => {
      clearInterval(timer);
      for (const event of events) {
        window.removeEventListener(event, recordInput, { capture: true });
      }
    };
  }, [isOn]);
}
