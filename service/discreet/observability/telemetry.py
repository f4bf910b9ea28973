"""Logs and traces of one process: what happened when, without private values.

Logs are one JSON object a line on standard error; inside a span each has the `trace_id`. Traces are
recorded and sent, by OTLP over HTTP, only if OpenTelemetry's variable OTEL_EXPORTER_OTLP_ENDPOINT
(or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) names a collector. Otherwise nothing is sent, and the SDK is
not even loaded.

A job carries its trace in a `traceparent` (W3C Trace Context) from the request through the queue to
the worker. Traces may reveal only what is public, and so may their durations: there is no span
inside a release, and the span around it has the padded duration (see `worker.padding`). For the
same reason no library is instrumented automatically, and an exception leaves its type in a span,
never its text.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any, TextIO, cast

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from structlog.stdlib import ProcessorFormatter, add_logger_name
from structlog.typing import Processor

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORT_SECONDS = 3
"""How long one export may take: a collector that does not answer must not delay the end of a
process."""

TRACEPARENT_CHARACTERS = 55

Kind = trace.SpanKind
Span = trace.Span

NO_SPAN: Span = trace.INVALID_SPAN

_tracer = trace.get_tracer("discreet")
_propagator = TraceContextTextMapPropagator()


class LossyStream:
    """Standard error, but a line that it does not take is lost: a full disk below the log must not
    fail what writes to it."""

    def write(self, text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def configure(part: str = "", level: int = logging.INFO) -> None:
    """Set up the logs of this process, warnings of libraries included, and traces if it is a part
    of the service. A command whose standard output is its answer needs this too: structlog would
    write there by default."""
    told: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _add_trace,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    written = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*told, written],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, LossyStream())),
    )
    if not part:
        logging.basicConfig(
            stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s"
        )
    else:
        of_libraries = logging.StreamHandler(sys.stderr)
        of_libraries.setFormatter(
            ProcessorFormatter(
                foreign_pre_chain=[*told, add_logger_name],
                processors=[ProcessorFormatter.remove_processors_meta, written],
            )
        )
        logging.basicConfig(handlers=[of_libraries], level=logging.WARNING)
    if part:
        structlog.contextvars.bind_contextvars(part=part)
        if any(os.environ.get(name) for name in ENDPOINTS):
            _export(part)


@contextmanager
def span(
    name: str,
    *,
    parent: str | None = None,
    kind: Kind = Kind.INTERNAL,
    **attributes: str | int | bool,
) -> Iterator[Span]:
    """A span around the block, below `parent` (a traceparent) or the current span.

    An exception marks the span as failed and leaves its type, but not its text, which may hold a
    private value.
    """
    above = context_of(parent) if parent is not None else None
    with _tracer.start_as_current_span(
        name,
        context=above,
        kind=kind,
        attributes={f"discreet.{key}": value for key, value in attributes.items()},
        record_exception=False,
        set_status_on_exception=False,
        end_on_exit=False,
    ) as current:
        try:
            yield current
        except BaseException as error:
            current.set_status(trace.StatusCode.ERROR, type(error).__name__)
            raise
        finally:
            current.end()


def note(
    name: str, start: int, end: int, *, parent: str | None = None, **attributes: str | int | bool
) -> None:
    """Record a span whose start and end are known, in nanoseconds since 1970."""
    _tracer.start_span(
        name,
        context=context_of(parent) if parent is not None else None,
        attributes={f"discreet.{key}": value for key, value in attributes.items()},
        start_time=start,
    ).end(end)


def traceparent() -> str | None:
    """The current span as a traceparent, for another process; None if tracing is off."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent")


def context_of(parent: str | None) -> Context:
    """The context that a traceparent names; an empty one for None or an unreadable one."""
    if parent is None or len(parent) != TRACEPARENT_CHARACTERS:
        return Context()
    return _propagator.extract({"traceparent": parent}, Context())


def _add_trace(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    current = trace.get_current_span().get_span_context()
    if current.is_valid:
        event["trace_id"], event["span_id"] = f"{current.trace_id:032x}", f"{current.span_id:016x}"
    return event


def _export(part: str) -> None:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    resource = Resource.create(
        {
            "service.name": "discreet",
            "service.namespace": "discreet",
            "service.version": version("discreet"),
            "service.instance.id": str(uuid.uuid4()),
            "discreet.part": part,
        }
    )
    provider = TracerProvider(resource=resource)  # flushed when the process ends
    timeout = None if os.environ.get("OTEL_EXPORTER_OTLP_TIMEOUT") else EXPORT_SECONDS
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=timeout)))
    # Not the provider of the whole process: FastAPI would use it for spans of its own, which hold
    # the texts of exceptions.
    global _tracer  # noqa: PLW0603
    _tracer = provider.get_tracer("discreet")
