import { useEffect, useState } from "react";
import { matcherOf } from "../../trace/find";
import type { Trace } from "../../trace/model";

/** What was found, by number. */
export type Found = {
  readonly text: string;
  readonly spans: Int32Array;
  /** For each span whether it is among them. */
  readonly marks: Uint8Array;
  readonly done: boolean;
};

const NOTHING: Found = { text: "", spans: new Int32Array(0), marks: new Uint8Array(0), done: true };

/** What is found of a text that looks for nothing, such as a space. */
function nothingOf(text: string): Found {
  return text === "" ? NOTHING : { ...NOTHING, text };
}

/** Milliseconds of looking at a time: less than a frame. */
const SLICE = 8;

/** Looks for the text in all spans without stopping the page; a new text ends the search for the old. */
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
    // Somebody who types goes on typing.
    timer = setTimeout(() => {
      setFound((before) => ({ ...before, text, done: false }));
      slice();
    }, 120);
    return () => clearTimeout(timer);
  }, [trace, text]);
  return found;
}
