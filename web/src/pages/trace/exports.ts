import type { Trace } from "../../trace/model";
import { jsonOf, otlpOf } from "../../trace/otlp";

/** Gives the reader the trace as a file. */
export function download(trace: Trace, form: "json" | "otlp"): void {
  const parts = form === "json" ? jsonOf(trace) : otlpOf(trace);
  const address = URL.createObjectURL(new Blob(parts, { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `trace-${trace.id.replace(/[^\w.-]/g, "_").slice(0, 64)}${form === "otlp" ? ".otlp" : ""}.json`;
  link.click();
  // The browser takes the data when the click has been worked off.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
