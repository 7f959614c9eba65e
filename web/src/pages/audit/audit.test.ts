import { describe, expect, it } from "vitest";
import type { Api } from "../../api/client";
import { actionLabel, actionOptions } from "./actions";
import { csvCell, ExportJob, RecordWriter } from "./exportJob";
import { rangeAround, rangeOfOne, resolveFilter } from "./filter";
import { pruningCutoff, recordSummary, toolCallOf } from "./record";
import { parseAuditUrl } from "./url";

function record(part: Partial<Api["AuditRecord"]> = {}): Api["AuditRecord"] {
  return {
    id: "7",
    at: "2026-11-22T00:47:26.038425Z",
    completed_at: null,
    actor: { id: "usr_1", username: "paula", credential_id: "ses_1", via: "session" },
    action: "traces.query",
    outcome: "success",
    request_id: "16b6",
    client_ip: "127.0.0.1",
    user_agent: "node",
    target: null,
    detail: {},
    ...part,
  };
}

const detail = (members: object) => members as Api["AuditRecord"]["detail"];

describe("CSV cells", () => {
  it.each([
    ["plain", "plain"],
    [null, ""],
    ['say "a", b', '"say ""a"", b"'],
    ["=1+1", "'=1+1"],
    ["+49", "'+49"],
    ["-1", "'-1"],
    ["@SUM(A1)", "'@SUM(A1)"],
    ["\t=1", "'\t=1"],
    ["\r=1", '"\'\r=1"'],
    ['=HYPERLINK("http://x","y")', '"\'=HYPERLINK(""http://x"",""y"")"'],
    ["a=1", "a=1"],
  ])("%j", (value, cell) => expect(csvCell(value)).toBe(cell));
});

describe("an export", () => {
  it("is one document of each format", () => {
    const write = (format: "csv" | "json" | "ndjson", records: Api["AuditRecord"][]) => {
      const writer = new RecordWriter(format);
      writer.add(records);
      writer.finish();
      return writer.parts.join("");
    };
    const twoRecords = [record(), record({ id: "6", user_agent: "=cmd" })];
    expect(JSON.parse(write("json", twoRecords))).toEqual(twoRecords);
    expect(JSON.parse(write("json", []))).toEqual([]);
    expect(
      write("ndjson", twoRecords)
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual(twoRecords);
    const lines = write("csv", twoRecords).split("\r\n");
    expect(lines).toHaveLength(4);
    expect(lines[2]).toContain(",'=cmd,");
  });

  it("continues from the page that failed", async () => {
    const requestedCursors: (string | undefined)[] = [];
    let fail = true;
    const job = new ExportJob("ndjson", async (cursor) => {
      requestedCursors.push(cursor);
      if (cursor === "b" && fail) {
        fail = false;
        throw new TypeError("gone");
      }
      return cursor === undefined
        ? { records: [record()], next_cursor: "b" }
        : { records: [record({ id: "6" })] };
    });
    const signal = new AbortController().signal;
    await expect(job.run(signal, () => {})).rejects.toThrow("gone");
    const counts: number[] = [];
    await job.run(signal, (count) => counts.push(count));
    expect(requestedCursors).toEqual([undefined, "b", "b"]);
    expect(counts).toEqual([2]);
  });

  it("ends when it is cancelled", async () => {
    const controller = new AbortController();
    const job = new ExportJob("json", async () => {
      controller.abort();
      return { records: [record()], next_cursor: "b" };
    });
    await expect(job.run(controller.signal, () => {})).rejects.toThrow();
    expect(job.writer.count).toBe(0);
  });
});

describe("the URL of the audit page", () => {
  it("keeps known parameters only", () => {
    const url = { actor: "paula", key: "key_1", target: "4bf9", outcome: "denied", record: 45, x: 1 };
    expect(parseAuditUrl(url)).toEqual({
      actor: "paula",
      key: "key_1",
      target: "4bf9",
      outcome: "denied",
      record: "45",
    });
    expect(parseAuditUrl({ outcome: "odd", from: " " })).toEqual({});
  });

  it("has times relative to now", () => {
    const now = new Date("2026-11-22T12:00:00Z");
    expect(
      resolveFilter({ from: "24h", to: "2026-11-22T11:00:00Z", record: "4", request: "r" }, now),
    ).toEqual({
      from: "2026-11-21T12:00:00.000Z",
      to: "2026-11-22T11:00:00Z",
    });
  });

  it("filters by everything but the record and the request", () => {
    const filter = {
      actor: "paula",
      key: "key_1",
      target: "4bf9",
      action: "login",
      outcome: "denied",
    } as const;
    expect(resolveFilter({ ...filter, record: "4", request: "r" }, new Date())).toEqual(filter);
  });

  it("covers one record, or the time around it", () => {
    expect(rangeOfOne("2026-11-22T00:47:26.038425Z")).toEqual({
      from: "2026-11-22T00:47:26.038425Z",
      to: "2026-11-22T00:47:26.038425001Z",
    });
    expect(rangeOfOne("2026-11-22T00:47:26.999999999Z").to).toBe("2026-11-22T00:47:27Z");
    expect(rangeAround("2026-11-22T00:47:26Z", 60)).toEqual({
      from: "2026-11-22T00:46:26Z",
      to: "2026-11-22T00:48:26Z",
    });
  });
});

describe("the summary of a record", () => {
  it("has the amount of data read, and the previewed user", () => {
    expect(
      recordSummary(record({ detail: detail({ traces: 1, spans: 2500, preview: { username: "sam" } }) })),
    ).toBe("1 trace, 2,500 spans, viewed as sam");
  });

  it("has the reason of a failure", () => {
    expect(recordSummary(record({ action: "user.delete", detail: detail({ code: "last_admin" }) }))).toBe(
      "last_admin",
    );
  });

  it("has the tool, and the name of the client", () => {
    const mcp = { tool: "svc_query_traces", arguments: { last: "1h" }, client: "editor 1.2" };
    const calledTool = record({ detail: detail({ traces: 3, spans: 0, mcp }) });
    expect(recordSummary(calledTool)).toBe("svc_query_traces, 3 traces");
    expect(toolCallOf(calledTool)).toEqual({ tool: "svc_query_traces", client: "editor 1.2" });
  });

  it("tolerates a missing client, and a detail that is not a call", () => {
    const calledTool = (mcp: unknown) => toolCallOf(record({ detail: detail({ mcp }) }));
    expect(calledTool({ tool: "svc_filter_schema", arguments: {}, client: null })).toEqual({
      tool: "svc_filter_schema",
      client: null,
    });
    // Form of records whose arguments were too large to store.
    expect(calledTool({ omitted_bytes: 70_000, sha256: "c0ffee" })).toEqual({ tool: null, client: null });
    expect(toolCallOf(record())).toBeNull();
    expect(recordSummary(record())).toBe("");
  });

  it("has the time before which other records were removed", () => {
    expect(pruningCutoff(record({ detail: detail({ before: "2026-01-01T00:00:00Z" }) }))).toBe(
      "2026-01-01T00:00:00Z",
    );
    expect(pruningCutoff(undefined)).toBeNull();
  });
});

describe("actions", () => {
  it("have labels, except those of later versions", () => {
    expect(actionLabel("role.put")).toBe("Saved a role");
    expect(actionLabel("new.one")).toBe("new.one");
    expect(actionOptions("new.one")[0]?.items).toEqual([{ value: "new.one", label: "new.one" }]);
  });
});
