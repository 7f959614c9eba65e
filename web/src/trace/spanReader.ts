import { parseJson } from "../lib/json";
import type { RawSpan } from "./columns";

/** Streaming parser for responses of `GET /traces/{id}`.
 *
 * Spans are parsed in batches, so that a transfer of a hundred megabytes neither needs one string of that size nor blocks the
 * page, and only a batch with a large integer needs the slower lossless parser. */
export class SpanReader {
  readonly spans: RawSpan[] = [];
  /** The document without the elements of its arrays. */
  #envelope = "";
  /** The unparsed text, starting with the incomplete element. */
  #unparsed = "";
  /** Offset in the unparsed text up to which brackets have been counted. */
  #offset = 0;
  #depth = 0;
  #inString = false;
  #inSpans = false;

  push(text: string): void {
    this.#unparsed += text;
    const rest = this.#unparsed;
    const length = rest.length;
    let offset = this.#offset;
    let depth = this.#depth;
    // Start of the outer document, or of the current element, in the unparsed text.
    let start = 0;
    let complete = -1;
    while (offset < length) {
      if (this.#inString) {
        const quote = findStringEnd(rest, offset);
        if (quote.end === -1) {
          offset = quote.next;
          break;
        }
        offset = quote.end + 1;
        this.#inString = false;
        continue;
      }
      const code = rest.charCodeAt(offset);
      offset += 1;
      if (code === 0x22) {
        this.#inString = true;
      } else if (code === 0x7b || code === 0x5b) {
        depth += 1;
        if (code === 0x5b && depth === 2 && !this.#inSpans) {
          this.#envelope += rest.slice(start, offset);
          start = offset;
          this.#inSpans = /"spans"\s*:\s*\[$/.test(this.#envelope);
        }
      } else if (code === 0x7d || code === 0x5d) {
        depth -= 1;
        if (this.#inSpans && depth === 2) {
          complete = offset;
        } else if (this.#inSpans && depth === 1) {
          this.#parseBatch(rest.slice(start, Math.max(complete, start)));
          start = Math.max(complete, start);
          complete = -1;
          this.#inSpans = false;
        }
      }
    }
    if (this.#inSpans) {
      if (complete > start) {
        this.#parseBatch(rest.slice(start, complete));
        start = complete;
      }
    } else {
      this.#envelope += rest.slice(start, offset);
      start = offset;
    }
    this.#unparsed = rest.slice(start);
    this.#offset = offset - start;
    this.#depth = depth;
  }

  /** Returns the document without its spans, after all text has been pushed. Throws if the document is not closed. */
  end(): unknown {
    if (this.#depth !== 0 || this.#inString || this.#envelope.trim() === "") {
      throw new SyntaxError("the document is not closed");
    }
    return JSON.parse(this.#envelope);
  }

  #parseBatch(elements: string): void {
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
function findStringEnd(text: string, from: number): { end: number; next: number } {
  for (let offset = from; ; ) {
    const quote = text.indexOf('"', offset);
    const until = quote === -1 ? text.length : quote;
    let backslashes = 0;
    while (until - backslashes > offset && text.charCodeAt(until - backslashes - 1) === 0x5c) {
      backslashes += 1;
    }
    const isEscaped = backslashes % 2 === 1;
    if (quote === -1) {
      return { end: -1, next: isEscaped ? until - 1 : until };
    }
    if (!isEscaped) {
      return { end: quote, next: quote };
    }
    offset = quote + 1;
  }
}
