"""Exports two spans with the official OpenTelemetry SDK. Usage: otlp_sdk_suite.py URL"""

import sys

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.trace import Link, SpanKind, Status, StatusCode


class Checked(OTLPSpanExporter):
    """Remembers whether every export succeeded."""

    failed = False

    def export(self, spans):
        result = super().export(spans)
        self.failed |= result is not SpanExportResult.SUCCESS
        return result


exporter = Checked(endpoint=sys.argv[1], compression=Compression.Gzip)
provider = TracerProvider(resource=Resource.create({"service.name": "python-shop"}))
provider.add_span_processor(SimpleSpanProcessor(exporter))
tracer = provider.get_tracer("suite", "1")

with tracer.start_as_current_span("root", kind=SpanKind.SERVER, attributes={"number": 7}) as root:
    link = Link(root.get_span_context())
    with tracer.start_as_current_span("child", kind=SpanKind.CLIENT, links=[link]) as child:
        child.set_attribute("text", "ä'")
        child.set_attribute("number", 1.5)
        child.set_attribute("list", ["a", "b"])
        child.record_exception(ValueError("boom"))
        child.set_status(Status(StatusCode.ERROR, "went wrong"))

provider.shutdown()
assert not exporter.failed, "an export failed"
