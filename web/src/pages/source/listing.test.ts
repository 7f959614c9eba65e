import { describe, expect, it } from "vitest";
import { type Candidate, fieldKey, refOf } from "./fields";
import {
  ALL_CONTAINERS,
  COLUMNS_CONTAINER,
  containersOf,
  type FieldListOptions,
  listFields,
} from "./listing";

function candidate(map: string, name: string, rows: number | null, ...examples: string[]): Candidate {
  const [key, ref] = [fieldKey(map, name), refOf(map, name)];
  return { key, map, name, ref, columnTypes: [], types: ["string"], rows, sampledRows: 100, examples };
}

const all = [
  candidate("SpanAttributes", "http.route", 40, "/cart"),
  candidate("ResourceAttributes", "team", 90),
  candidate("", "ServiceName", null),
  candidate("SpanAttributes", "by.hand", null),
];
const names = (listing: Partial<FieldListOptions>) =>
  listFields(all, {
    text: "",
    container: ALL_CONTAINERS,
    order: "frequency",
    onlyKeys: null,
    leadingColumns: [],
    ...listing,
  }).map(({ name }) => name);

describe("the list", () => {
  it("is sorted by frequency, unknown frequencies last", () => {
    expect(names({})).toEqual(["ServiceName", "team", "http.route", "by.hand"]);
    expect(names({ order: "name" })).toEqual(["team", "ServiceName", "by.hand", "http.route"]);
  });

  it("starts with the columns of the binding", () => {
    const columns = [candidate("", "Links", null), candidate("", "SpanName", null)];
    const all = { text: "", container: ALL_CONTAINERS, order: "frequency", onlyKeys: null } as const;
    expect(listFields(columns, { ...all, leadingColumns: ["SpanName"] }).map(({ name }) => name)).toEqual([
      "SpanName",
      "Links",
    ]);
  });

  it("is searched for all words in names and examples", () => {
    expect(names({ text: "SPAN route" })).toEqual(["http.route"]);
    expect(names({ text: "/cart" })).toEqual(["http.route"]);
  });

  it("can be limited to one container, or to some fields", () => {
    expect(names({ container: COLUMNS_CONTAINER })).toEqual(["ServiceName"]);
    expect(names({ container: "SpanAttributes" })).toEqual(["http.route", "by.hand"]);
    expect(names({ onlyKeys: new Set([fieldKey("ResourceAttributes", "team")]) })).toEqual(["team"]);
  });

  it("has the containers with their counts", () => {
    expect(containersOf(all)).toEqual([
      { container: "", count: 1 },
      { container: "ResourceAttributes", count: 1 },
      { container: "SpanAttributes", count: 2 },
    ]);
  });
});
