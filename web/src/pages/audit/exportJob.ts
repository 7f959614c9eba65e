import type { Api } from "../../api/client";
import { writeJson } from "../../lib/json";

type AuditRecord = Api["AuditRecord"];

export const FORMATS = {
  ndjson: { label: "NDJSON, one record a line", type: "application/x-ndjson" },
  json: { label: "JSON", type: "application/json" },
  csv: { label: "CSV, for spreadsheets", type: "text/csv;charset=utf-8" },
} as const;

export type Format = keyof typeof FORMATS;

const COLUMNS: [string, (record: AuditRecord) => string | null][] = [
  ["id", (record) => record.id],
  ["at", (record) => record.at],
  ["completed_at", (record) => record.completed_at],
  ["actor", (record) => record.actor.username],
  ["actor_id", (record) => record.actor.id],
  ["credential_id", (record) => record.actor.credential_id],
  ["via", (record) => record.actor.via],
  ["action", (record) => record.action],
  ["target", (record) => record.target],
  ["outcome", (record) => record.outcome],
  ["request_id", (record) => record.request_id],
  ["client_ip", (record) => record.client_ip],
  ["user_agent", (record) => record.user_agent],
  ["detail", (record) => writeJson(record.detail, 0)],
];

/** A CSV cell (RFC 4180).
 *
 * Spreadsheets evaluate cells that start with certain characters, so that a user agent or a name could run a formula on the
 * computer of the user who opens the file. An apostrophe turns such cells into text. */
export function csvCell(value: string | null): string {
  const text = value ?? "";
  const escaped = /^[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(escaped) ? `"${escaped.replaceAll('"', '""')}"` : escaped;
}

/** Writes records as they arrive, in parts of one file. */
export class RecordWriter {
  readonly parts: string[] = [];
  count = 0;

  constructor(private readonly format: Format) {
    if (format === "csv") {
      // Spreadsheets detect UTF-8 by the byte order mark.
      this.parts.push(`\ufeff${COLUMNS.map(([name]) => name).join(",")}\r\n`);
    }
  }

  add(records: readonly AuditRecord[]): void {
    for (const record of records) {
      if (this.format === "csv") {
        this.parts.push(`${COLUMNS.map(([, cellOf]) => csvCell(cellOf(record))).join(",")}\r\n`);
      } else if (this.format === "ndjson") {
        this.parts.push(`${writeJson(record, 0)}\n`);
      } else {
        this.parts.push(`${this.count === 0 ? "[\n" : ",\n"}${writeJson(record, 0)}`);
      }
      this.count += 1;
    }
  }

  finish(): void {
    if (this.format === "json") {
      this.parts.push(this.count === 0 ? "[]\n" : "\n]\n");
    }
  }
}

/** Reads all pages. If a page fails, the records so far are kept, and another run continues from there. */
export class ExportJob {
  readonly writer: RecordWriter;
  private cursor: string | undefined;

  constructor(
    format: Format,
    private readonly fetchPage: (
      cursor: string | undefined,
      signal: AbortSignal,
    ) => Promise<Api["AuditList"]>,
    private readonly matches: (record: AuditRecord) => boolean = () => true,
  ) {
    this.writer = new RecordWriter(format);
  }

  async run(signal: AbortSignal, onCount: (count: number) => void): Promise<void> {
    for (;;) {
      const { records, next_cursor } = await this.fetchPage(this.cursor, signal);
      signal.throwIfAborted();
      this.writer.add(records.filter(this.matches));
      onCount(this.writer.count);
      if (next_cursor === undefined) {
        this.writer.finish();
        return;
      }
      this.cursor = next_cursor;
    }
  }
}
