"""A small instrumented program: the official OpenTelemetry SDK, sending to the address given.

Prints the id of each trace that it made, one a line, after the exporter has delivered it.
"""

import sys
import uuid

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode

endpoint, orders = sys.argv[1], sys.argv[2:]

provider = TracerProvider(resource=Resource.create({"service.name": "checkout", "deployment.environment.name": "test"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
tracer = provider.get_tracer("shop", "1.0")

for order in orders:
    with tracer.start_as_current_span("POST /orders", kind=SpanKind.SERVER) as root:
        root.set_attribute("http.request.method", "POST")
        root.set_attribute("http.response.status_code", 201)
        with tracer.start_as_current_span("reserve stock"):
            pass
        with tracer.start_as_current_span("charge card", kind=SpanKind.CLIENT) as inner:
            inner.set_attribute("order.id", order)
            inner.set_attribute("cart.skus", ["a-1", "b \"2\""])
            inner.set_attribute("gift", True)
            with tracer.start_as_current_span("fraud check") as check:
                check.add_event("scored", {"score": 0.25, "request": str(uuid.uuid4())})
                check.set_status(Status(StatusCode.ERROR, "declined\nfor 'reasons'"))
    print(format(root.get_span_context().trace_id, "032x"))

if not provider.force_flush(10_000):
    sys.exit("the spans could not be delivered")
provider.shutdown()
