import { useEffect, useState } from "react";
import { matcherOf } from "../../trace/find";
import type { Trace } from "../../trace/model";

/** Matching spans by number. */
export type Found = {
  readonly text: string;
  readonly spans: Int32Array;
  /** For each span, whether it matches. */
  readonly marks: Uint8Array;
  readonly done: boolean;
};

const NOTHING: Found = { text: "", spans: new Int32Array(0), marks: new Uint8Array(0), done: true };

/** Result for a text without search terms, such as a space. */
function nothingOf(text: string): Found {
  return text === "" ? NOTHING : { ...NOTHING, text };
}

/** Duration of one slice of the search in milliseconds, shorter than a frame. */
const SLICE = 8;

/** Searches all spans without blocking the page. A new text aborts the previous search. */
export function useFind(trace: Trace, text: string): Found {
  const [found, setFound] = useState<Found>(NOTHING);
  useEffect(() => {
    const matches = matcherOf(trace, text);
    if (matches === null) {
      setFound(nothingOf(text));
      return;
    }
    const marks = new Uint8Array(trace.count);
    const spans: number[] = [];
    let at = 0;
    let timer: ReturnType<typeof setTimeout>;
    const slice = () => {
      const until = performance.now() + SLICE;
      do {
        const last = Math.min(at + 64, trace.count);
        for (; at < last; at += 1) {
          if (matches(at)) {
            marks[at] = 1;
            spans.push(at);
          }
        }
      } while (at < trace.count && performance.now() < until);
      if (at < trace.count) {
        timer = setTimeout(slice);
        return;
      }
      setFound({ text, spans: Int32Array.from(spans), marks, done: true });
    };
    // Waits for further typing.
    timer = setTimeout(() => {
      setFound((before) => ({ ...before, text, done: false }));
      slice();
    }, 120);
    return () => clearTimeout(timer);
  }, [trace, text]);
  return found;
}
