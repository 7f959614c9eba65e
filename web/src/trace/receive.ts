import { parseJson } from "../lib/json";
import type { RawSpan } from "./columns";

/** Takes an answer of `GET /traces/{id}` apart while it arrives.
 *
 * Spans are parsed some at a time, so that a transfer of a hundred megabytes neither needs one text of that size nor
 * stops the page, and the exact, slower reading of large integers is only needed for the part that holds one. */
export class SpanReader {
  readonly spans: RawSpan[] = [];
  /** The document without the elements of its arrays. */
  #outer = "";
  /** What has not been taken apart, beginning with the element that is not complete. */
  #rest = "";
  /** Place in the rest up to which brackets have been counted. */
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
    // Where the outer document, or the element that is being looked at, begins in the rest.
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

  /** The rest of the document, once all has been pushed. Throws when the document has not closed. */
  end(): unknown {
    if (this.#depth !== 0 || this.#inText || this.#outer.trim() === "") {
      throw new SyntaxError("the document has not closed");
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

/** The quote that ends the text, or where to look on when more has arrived: never between a backslash and what it escapes. */
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
