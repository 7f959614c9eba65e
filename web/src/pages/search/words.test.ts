import { describe, expect, it } from "vitest";
import type { Field } from "./fields";
import { stageOf } from "./parse";
import { callerFields, pastedTraceId, typedWord, wordFields } from "./words";

const field = (name: string, type: Field["type"] = "string"): Field => ({
  map: "",
  name,
  ref: name,
  type,
  operators: ["eq"],
});
const FIELDS = [field("ServiceName"), field("SpanName"), field("StatusCode", "number"), field("Duration")];
const ID = "6878ba65fd45b14e66d9f74bb93dff02";

describe("a pasted trace id", () => {
  it.each([
    [ID, ID],
    [` ${ID.toUpperCase()}\n`, ID.toUpperCase()],
    ["6878ba65-fd45-b14e-66d9-f74bb93dff02", "6878ba65-fd45-b14e-66d9-f74bb93dff02"],
    ["66d9f74bb93dff02", "66d9f74bb93dff02"],
    ["aHi6Zf1FsU5m2fdLuT3/Ag==", "aHi6Zf1FsU5m2fdLuT3/Ag=="],
    [`traceparent: 00-${ID}-66d9f74bb93dff02-01`, ID],
    [`00-${ID}-66d9f74bb93dff02-01`, ID],
    [`https://traces.example.com/ui/trace/${ID}?span=a`, ID],
    ["https://traces.example.com/ui/trace/aHi6Zf1FsU5m2fdLuT3%2FAg%3D%3D", "aHi6Zf1FsU5m2fdLuT3/Ag=="],
  ])("%s", (text, id) => expect(pastedTraceId(text)).toBe(id));

  it.each([
    "checkout",
    "500",
    "",
    ID.slice(1),
    `${ID}0`,
    "ServiceName = a",
    "https://example.com/trace/",
    "https://example.com/trace/%",
  ])("is not %s", (text) => expect(pastedTraceId(text)).toBeNull());
});

describe("a typed word", () => {
  const word = (text: string) => typedWord(stageOf(text, FIELDS));

  it("is the text where a condition is expected", () => {
    expect(word("checkout")).toBe("checkout");
    expect(word("ServiceName = a and slow query")).toBe("slow query");
    expect(word("not checkout")).toBe("checkout");
    expect(word("(checkout")).toBe("checkout");
  });

  it.each(["", "c", "ServiceName = a", "ServiceName ", "foo = 1", `${ID}`])("is not %s", (text) => {
    expect(word(text)).toBeNull();
  });

  it("is looked up in at most three fields that identify the caller", () => {
    const [field] = FIELDS;
    const named = (name: string) => ({ ...field, map: "SpanAttributes", name, ref: name }) as Field;
    const names = [
      "http.route",
      "user_agent.original",
      "client.address",
      "team",
      "enduser.user",
      "customer",
      "tenant.id",
    ];
    const found = callerFields([...FIELDS, ...names.map(named)]).map(({ name }) => name);
    expect(found).toEqual(["tenant.id", "customer", "enduser.user"]);
  });

  it("is looked up in string fields for service, operation and status", () => {
    expect(wordFields(FIELDS).map(({ name }) => name)).toEqual(["ServiceName", "SpanName"]);
    expect(wordFields([])).toEqual([]);
  });
});
