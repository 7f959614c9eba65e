import { describe, expect, it } from "vitest";
import { formatZoom, parseTraceUrl, parseZoom } from "./url";

describe("the URL of a trace page", () => {
  it("keeps known parameters only, as text", () => {
    expect(parseTraceUrl({ span: 1234, view: "flame", zoom: "1-20", find: true, other: 1 })).toEqual({
      span: "1234",
      view: "flame",
      zoom: "1-20",
      find: "true",
    });
    expect(parseTraceUrl({ why: "user", user: 42 })).toEqual({ why: "user", user: "42" });
    expect(parseTraceUrl({ span: "", view: "table", zoom: "all", find: null, why: "all", user: "" })).toEqual(
      {},
    );
  });

  it("contains the zoom in nanoseconds", () => {
    expect(parseZoom(formatZoom({ from: 10.4, to: 20.2 }))).toEqual({ from: 10, to: 21 });
    expect(parseZoom("5-5")).toBeNull();
    expect(parseZoom(undefined)).toBeNull();
  });
});
