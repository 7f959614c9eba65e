import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "../../api/client";
import { RUN_ONCE } from "../../api/queries";
import type { TraceSchema } from "../../trace/columns";
import { buildTrace, type Trace } from "../../trace/model";
import { SpanReader } from "../../trace/spanReader";

/** Progress of a transfer. */
export type Progress = { readonly bytes: number; readonly spans: number };

/** Loads a trace and builds its model. Because traces are large, the model is cached for a minute only, not compared, and
 * refetched only on request. It is not retried after a failure either: a transfer that was aborted late would be sent three
 * times. */
export function traceQuery(id: string, onProgress: (progress: Progress) => void) {
  return queryOptions({
    queryKey: ["trace", id],
    queryFn: ({ signal }) => loadTrace(id, signal, onProgress),
    ...RUN_ONCE,
    gcTime: 60_000,
    structuralSharing: false,
  });
}

async function loadTrace(
  id: string,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<Trace> {
  performance.clearMarks("trace-arrived");
  performance.clearMarks("trace-usable");
  onProgress({ bytes: 0, spans: 0 });
  const stream = await unwrap(
    api.GET("/traces/{id}", { params: { path: { id } }, parseAs: "stream", signal }),
  );
  const reader = new SpanReader();
  const decoder = new TextDecoder();
  let bytes = 0;
  let reportedAt = performance.now();
  if (stream !== null) {
    for (const body = stream.getReader(); ; ) {
      const { done, value } = await body.read().catch((error: unknown) => {
        // The response had started, so that the service was reachable.
        throw signal.aborted ? error : abortedError();
      });
      if (done) {
        break;
      }
      bytes += value.byteLength;
      reader.push(decoder.decode(value, { stream: true }));
      if (performance.now() - reportedAt > 100) {
        reportedAt = performance.now();
        onProgress({ bytes, spans: reader.spans.length });
        // If the whole body is already available, the page would otherwise not be rendered meanwhile.
        await new Promise((resolve) => setTimeout(resolve));
      }
    }
  }
  reader.push(decoder.decode());
  performance.mark("trace-arrived");
  return buildTrace(id, schemaOf(reader), reader.spans);
}

function abortedError(): Error {
  return new Error("The response was aborted before the trace was complete. Reload it.");
}

/** The response is complete if and only if its document is closed. */
function schemaOf(reader: SpanReader): TraceSchema {
  let document: unknown;
  try {
    document = reader.end();
  } catch {
    throw abortedError();
  }
  const { schema } = document as { schema: TraceSchema };
  return schema;
}
