import { parseJson } from "../lib/json";
import type { RawSpan } from "./columns";

/** Streaming parser for responses of `GET /traces/{id}`.
 *
 * Spans are parsed in batches, so that a transfer of a hundred megabytes neither needs one string of that size nor blocks the
 * page, and only a batch with a large integer needs the slower lossless parser. */
export class SpanReader {
  readonly spans: RawSpan[] = [];
  /** The document without the elements of its arrays. */
  #outer = "";
  /** The unparsed text, starting with the incomplete element. */
  #rest = "";
  /** Offset in the unparsed text up to which brackets have been counted. */
  #at = 0;
  #depth = 0;
  #inText = false;
  #inSpans = false;

  push(text: string): void {
    this.#rest += text;
    const rest = this.#rest;
    const length = rest.length;
    let at = this.#at;
    let depth = this.#depth;
    // Start of the outer document, or of the current element, in the unparsed text.
    let begin = 0;
    let complete = -1;
    while (at < length) {
      if (this.#inText) {
        const quote = endOfText(rest, at);
        if (quote.end === -1) {
          at = quote.next;
          break;
        }
        at = quote.end + 1;
        this.#inText = false;
        continue;
      }
      const code = rest.charCodeAt(at);
      at += 1;
      if (code === 0x22) {
        this.#inText = true;
      } else if (code === 0x7b || code === 0x5b) {
        depth += 1;
        if (code === 0x5b && depth === 2 && !this.#inSpans) {
          this.#outer += rest.slice(begin, at);
          begin = at;
          this.#inSpans = /"spans"\s*:\s*\[$/.test(this.#outer);
        }
      } else if (code === 0x7d || code === 0x5d) {
        depth -= 1;
        if (this.#inSpans && depth === 2) {
          complete = at;
        } else if (this.#inSpans && depth === 1) {
          this.#take(rest.slice(begin, Math.max(complete, begin)));
          begin = Math.max(complete, begin);
          complete = -1;
          this.#inSpans = false;
        }
      }
    }
    if (this.#inSpans) {
      if (complete > begin) {
        this.#take(rest.slice(begin, complete));
        begin = complete;
      }
    } else {
      this.#outer += rest.slice(begin, at);
      begin = at;
    }
    this.#rest = rest.slice(begin);
    this.#at = at - begin;
    this.#depth = depth;
  }

  /** Returns the document without its spans, after all text has been pushed. Throws if the document is not closed. */
  end(): unknown {
    if (this.#depth !== 0 || this.#inText || this.#outer.trim() === "") {
      throw new SyntaxError("the document is not closed");
    }
    return JSON.parse(this.#outer);
  }

  #take(elements: string): void {
    const text = elements.replace(/^[\s,]+/, "");
    if (text === "") {
      return;
    }
    const parsed = parseJson(`[${text}]`);
    if (Array.isArray(parsed)) {
      for (const span of parsed) {
        this.spans.push(span as RawSpan);
      }
    }
  }
}

/** Finds the quote that ends a string, or the offset to continue from when more text has arrived: never between a backslash and
 * the escaped character. */
function endOfText(rest: string, from: number): { end: number; next: number } {
  for (let at = from; ; ) {
    const quote = rest.indexOf('"', at);
    const until = quote === -1 ? rest.length : quote;
    let backslashes = 0;
    while (until - backslashes > at && rest.charCodeAt(until - backslashes - 1) === 0x5c) {
      backslashes += 1;
    }
    const escaped = backslashes % 2 === 1;
    if (quote === -1) {
      return { end: -1, next: escaped ? until - 1 : until };
    }
    if (!escaped) {
      return { end: quote, next: quote };
    }
    at = quote + 1;
  }
}
