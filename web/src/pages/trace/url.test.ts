import { describe, expect, it } from "vitest";
import { rangeOfUrl, traceOfUrl, zoomOfRange } from "./url";

describe("the URL of a trace page", () => {
  it("keeps known parameters only, as text", () => {
    expect(traceOfUrl({ span: 1234, view: "flame", zoom: "1-20", find: true, other: 1 })).toEqual({
      span: "1234",
      view: "flame",
      zoom: "1-20",
      find: "true",
    });
    expect(traceOfUrl({ why: "user", user: 42 })).toEqual({ why: "user", user: "42" });
    expect(traceOfUrl({ span: "", view: "table", zoom: "all", find: null, why: "all", user: "" })).toEqual(
      {},
    );
  });

  it("contains the zoom in nanoseconds", () => {
    expect(rangeOfUrl(zoomOfRange({ from: 10.4, to: 20.2 }))).toEqual({ from: 10, to: 21 });
    expect(rangeOfUrl("5-5")).toBeNull();
    expect(rangeOfUrl(undefined)).toBeNull();
  });
});
