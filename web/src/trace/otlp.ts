import { LosslessNumber, writeJson } from "../lib/json";
import type { Instant } from "../lib/time";
import { idOf, instantOfValue, type RawSpan, textOf } from "./columns";
import { attributesOf, type Entry, eventsOf, kindNumber, linksOf, resourceOf, statusNumber } from "./details";
import type { Trace } from "./model";

type Json = Record<string, unknown>;

const [MIN_INT64, MAX_INT64] = [-(2n ** 63n), 2n ** 63n - 1n];

/** A value in OTLP/JSON, where 64-bit integers are strings. Larger integers are string values, as OpenTelemetry specifies. */
export function otlpValue(value: unknown): Json {
  if (typeof value === "string") {
    return { stringValue: value };
  }
  if (typeof value === "boolean") {
    return { boolValue: value };
  }
  if (value instanceof LosslessNumber) {
    const number = BigInt(value.value);
    return number >= MIN_INT64 && number <= MAX_INT64
      ? { intValue: value.value }
      : { stringValue: value.value };
  }
  if (typeof value === "number") {
    return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  }
  if (Array.isArray(value)) {
    return { arrayValue: { values: value.map(otlpValue) } };
  }
  if (typeof value === "object" && value !== null) {
    return {
      kvlistValue: {
        values: Object.entries(value).map(([key, member]) => ({ key, value: otlpValue(member) })),
      },
    };
  }
  return {};
}

function keyValues(entries: readonly Entry[]): Json[] {
  return entries.map(({ key, value }) => ({ key, value: otlpValue(value) }));
}

function unixNanos(instant: Instant | null): bigint {
  return instant === null ? 0n : BigInt(instant.seconds) * 1_000_000_000n + BigInt(instant.nanos);
}

function optionalMember(name: string, value: string): Json {
  return value === "" ? {} : { [name]: value };
}

function otlpSpan(trace: Trace, index: number, span: RawSpan): Json {
  const { columns } = trace;
  const columnText = (column: string | undefined) => (column === undefined ? "" : textOf(span[column]));
  const start = unixNanos(instantOfValue(span[columns.timestamp]));
  const attributes = keyValues(attributesOf(span, columns));
  const events = eventsOf(span, columns).map((event) => ({
    timeUnixNano: String(unixNanos(instantOfValue(event.at))),
    name: event.name,
    attributes: keyValues(event.attributes),
  }));
  const links = linksOf(span, columns).map((link) => ({
    traceId: link.traceId,
    spanId: link.spanId,
    ...optionalMember("traceState", link.traceState),
    attributes: keyValues(link.attributes),
  }));
  const code = statusNumber(span, columns);
  return {
    traceId: columnText(columns.traceId),
    spanId: columnText(columns.spanId),
    ...optionalMember("traceState", columnText(columns.traceState)),
    ...optionalMember("parentSpanId", idOf(span[columns.parentId])),
    name: columnText(columns.name),
    kind: kindNumber(span, columns),
    startTimeUnixNano: String(start),
    endTimeUnixNano: String(start + BigInt(Math.round(trace.duration[index] ?? 0))),
    attributes,
    ...(events.length === 0 ? {} : { events }),
    ...(links.length === 0 ? {} : { links }),
    status: {
      ...(code === 0 ? {} : { code }),
      ...optionalMember("message", columnText(columns.statusMessage)),
    },
  };
}

/** The trace as OTLP/JSON, in parts: spans are grouped by resource and scope. */
export function otlpOf(trace: Trace): string[] {
  const { columns } = trace;
  const resources = new Map<
    string,
    { resource: Json; scopes: Map<string, { scope: Json; spans: number[] }> }
  >();
  trace.spans.forEach((span, index) => {
    const entries = resourceOf(span, columns);
    const service = columns.service === undefined ? "" : textOf(span[columns.service]);
    // Some versions of the exporter remove the service name from the resource attributes.
    if (service !== "" && !entries.some(({ key }) => key === "service.name")) {
      entries.unshift({ key: "service.name", value: service });
    }
    const key = writeJson(entries, 0);
    const columnText = (column: string | undefined) => (column === undefined ? "" : textOf(span[column]));
    const scope = {
      ...optionalMember("name", columnText(columns.scopeName)),
      ...optionalMember("version", columnText(columns.scopeVersion)),
    };
    const group = resources.get(key) ?? { resource: { attributes: keyValues(entries) }, scopes: new Map() };
    resources.set(key, group);
    const scopeKey = JSON.stringify(scope);
    const scopeGroup = group.scopes.get(scopeKey) ?? { scope, spans: [] };
    group.scopes.set(scopeKey, scopeGroup);
    scopeGroup.spans.push(index);
  });
  const parts: string[] = ['{"resourceSpans":['];
  let resourceIndex = 0;
  for (const { resource, scopes } of resources.values()) {
    parts.push(`${resourceIndex === 0 ? "" : ","}{"resource":${JSON.stringify(resource)},"scopeSpans":[`);
    resourceIndex += 1;
    [...scopes.values()].forEach(({ scope, spans }, scopeIndex) => {
      parts.push(`${scopeIndex === 0 ? "" : ","}{"scope":${JSON.stringify(scope)},"spans":[`);
      spans.forEach((index, spanIndex) => {
        const span = JSON.stringify(otlpSpan(trace, index, trace.spans[index] ?? {}));
        parts.push(spanIndex === 0 ? span : `,${span}`);
      });
      parts.push("]}");
    });
    parts.push("]}");
  }
  parts.push("]}");
  return parts;
}

/** The trace in the format of the service's response, in parts; spans are ordered by tree instead of by time. */
export function jsonOf(trace: Trace): string[] {
  const parts = [`{"schema":${writeJson(trace.schema, 0)},"spans":[`];
  trace.spans.forEach((span, index) => {
    parts.push(`${index === 0 ? "" : ",\n"}${writeJson(span, 0)}`);
  });
  parts.push("]}\n");
  return parts;
}
