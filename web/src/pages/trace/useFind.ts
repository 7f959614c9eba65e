import { useEffect, useState } from "react";
import { matcherOf } from "../../trace/find";
import type { Trace } from "../../trace/model";

/** Matching spans by number. */
export type FindResult = {
  readonly text: string;
  readonly spans: Int32Array;
  /** For each span, whether it matches. */
  readonly marks: Uint8Array;
  readonly done: boolean;
};

const NO_MATCHES: FindResult = { text: "", spans: new Int32Array(0), marks: new Uint8Array(0), done: true };

/** Result for a text without search terms, such as a space. */
function emptyResult(text: string): FindResult {
  return text === "" ? NO_MATCHES : { ...NO_MATCHES, text };
}

/** Duration of one slice of the search in milliseconds, shorter than a frame. */
const SLICE_MS = 8;

/** Searches all spans without blocking the page. A new text aborts the previous search. */
export function useFind(trace: Trace, text: string): FindResult {
  const [result, setResult] = useState<FindResult>(NO_MATCHES);
  useEffect(() => {
    const matches = matcherOf(trace, text);
    if (matches === null) {
      setResult(emptyResult(text));
      return;
    }
    const marks = new Uint8Array(trace.count);
    const spans: number[] = [];
    let index = 0;
    let timer: ReturnType<typeof setTimeout>;
    const searchSlice = () => {
      const until = performance.now() + SLICE_MS;
      do {
        const last = Math.min(index + 64, trace.count);
        for (; index < last; index += 1) {
          if (matches(index)) {
            marks[index] = 1;
            spans.push(index);
          }
        }
      } while (index < trace.count && performance.now() < until);
      if (index < trace.count) {
        timer = setTimeout(searchSlice);
        return;
      }
      setResult({ text, spans: Int32Array.from(spans), marks, done: true });
    };
    // Waits for further typing.
    timer = setTimeout(() => {
      setResult((previous) => ({ ...previous, text, done: false }));
      searchSlice();
    }, 120);
    return () => clearTimeout(timer);
  }, [trace, text]);
  return result;
}
