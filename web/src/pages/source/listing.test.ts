import { describe, expect, it } from "vitest";
import { type Candidate, fieldKey, refOf } from "./fields";
import { COLUMNS, EVERYWHERE, type Listing, listed, placesOf } from "./listing";

function candidate(map: string, name: string, rows: number | null, ...examples: string[]): Candidate {
  const [key, ref] = [fieldKey(map, name), refOf(map, name)];
  return { key, map, name, ref, storeTypes: [], types: ["string"], rows, sampledRows: 100, examples };
}

const all = [
  candidate("SpanAttributes", "http.route", 40, "/cart"),
  candidate("ResourceAttributes", "team", 90),
  candidate("", "ServiceName", null),
  candidate("SpanAttributes", "by.hand", null),
];
const names = (listing: Partial<Listing>) =>
  listed(all, { text: "", place: EVERYWHERE, order: "frequency", only: null, leading: [], ...listing }).map(
    ({ name }) => name,
  );

describe("the list", () => {
  it("is sorted by frequency, unknown frequencies last", () => {
    expect(names({})).toEqual(["ServiceName", "team", "http.route", "by.hand"]);
    expect(names({ order: "name" })).toEqual(["team", "ServiceName", "by.hand", "http.route"]);
  });

  it("starts with the columns of the binding", () => {
    const two = [candidate("", "Links", null), candidate("", "SpanName", null)];
    const all = { text: "", place: EVERYWHERE, order: "frequency", only: null } as const;
    expect(listed(two, { ...all, leading: ["SpanName"] }).map(({ name }) => name)).toEqual([
      "SpanName",
      "Links",
    ]);
  });

  it("is searched for all words in names and examples", () => {
    expect(names({ text: "SPAN route" })).toEqual(["http.route"]);
    expect(names({ text: "/cart" })).toEqual(["http.route"]);
  });

  it("can be limited to one place, or to some fields", () => {
    expect(names({ place: COLUMNS })).toEqual(["ServiceName"]);
    expect(names({ place: "SpanAttributes" })).toEqual(["http.route", "by.hand"]);
    expect(names({ only: new Set([fieldKey("ResourceAttributes", "team")]) })).toEqual(["team"]);
  });

  it("has the places with their counts", () => {
    expect(placesOf(all)).toEqual([
      { place: "", count: 1 },
      { place: "ResourceAttributes", count: 1 },
      { place: "SpanAttributes", count: 2 },
    ]);
  });
});
