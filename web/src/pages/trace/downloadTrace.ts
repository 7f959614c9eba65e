import { download } from "../../lib/download";
import type { Trace } from "../../trace/model";
import { jsonOf, otlpOf } from "../../trace/otlp";

/** Downloads the trace as a file. */
export function downloadTrace(trace: Trace, format: "json" | "otlp"): void {
  const name = `trace-${trace.id.replace(/[^\w.-]/g, "_").slice(0, 64)}${format === "otlp" ? ".otlp" : ""}.json`;
  download(format === "json" ? jsonOf(trace) : otlpOf(trace), name, "application/json");
}
