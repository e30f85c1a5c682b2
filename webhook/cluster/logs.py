"""Logs: JSON lines on standard error, one for each denial or patch; readable lines on a terminal.

A line never has a body or the content of an object. An error is logged by its `outline`. A bug is logged by its
location, without the text of the exception, which may quote a value.
"""

from __future__ import annotations

import logging
import math
import sys
import traceback
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

import orjson
import structlog

from webhook.cluster.clock import MACHINE_CLOCK, Clock
from webhook.errors import RollcallError
from webhook.model.admission_request import Request, Verdict
from webhook.model.findings import plain
from webhook.model.reading import Malformed

# The most characters of a library's message: enough to show its subject.
MAX_WORDS = 200
# The shortest time between two lines of a library with the same level.
LIBRARY_SECONDS = 1.0
# The most characters of a value in a line. Names have at most 253, and a reason is a sentence or two. A uid or name
# from a caller may be megabytes.
MAX_VALUE_CHARACTERS = 1_000


def configure() -> None:
    """Sets up logging, once in a process."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    # A trace binds its id as a context variable.
    shared: list[Any] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, stamp, cut_values]
    if sys.stderr.isatty():
        console = structlog.dev.ConsoleRenderer(exception_formatter=lambda out, fault: out.writelines(_fault(fault[1])))
        structlog.configure(
            processors=[*shared, console],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[*shared, tell_fault, structlog.processors.JSONRenderer(orjson.dumps)],
            logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _StandardError())),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        )
    root = logging.getLogger()
    if not any(isinstance(handler, _Libraries) for handler in root.handlers):
        root.addHandler(_Libraries())


def outline(error: BaseException) -> str:
    """Returns the text of an error for a log line, without the content of an object."""
    if isinstance(error, RollcallError):
        return error.outline
    # A `Malformed` has only types and places.
    return str(error) if isinstance(error, Malformed) else type(error).__name__


def cut_values(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Returns a line with long texts cut and control characters replaced, for terminals."""
    together = "".join([value for value in line.values() if isinstance(value, str)])
    if len(together) <= MAX_VALUE_CHARACTERS and together.isprintable():
        return line
    for key, value in line.items():
        if isinstance(value, str) and (len(value) > MAX_VALUE_CHARACTERS or not value.isprintable()):
            kept = value if len(value) <= MAX_VALUE_CHARACTERS else f"{value[: MAX_VALUE_CHARACTERS - 3]}..."
            line[key] = plain(kept)
    return line


def tell_fault(_: Any, __: str, line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Returns a line with `exc_info` replaced by `exception`, with the types and locations of the errors,
    without their texts.
    """
    exc_info = line.pop("exc_info", None)
    if exc_info is True:
        exc_info = sys.exc_info()
    elif isinstance(exc_info, BaseException):
        exc_info = (type(exc_info), exc_info, exc_info.__traceback__)
    if exc_info and exc_info[1] is not None:
        line["exception"] = "".join(_fault(exc_info[1])).rstrip()
    return line


def _fault(error: BaseException) -> Iterator[str]:
    """Yields a traceback as Python prints it, the first cause first, with only the name of each exception."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None:
        yield from _fault(before)
        yield "and then:\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__qualname__}\n"


class _Libraries(logging.Handler):
    """Writes messages of libraries in our format. Only the first line of a message: further lines quote objects.

    A client can make uvicorn log a warning for each of its requests, so the lines of a library are limited for each
    level.
    """

    def __init__(self, *, clock: Clock = MACHINE_CLOCK) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        # By library and level: when its last line was written, and how many have been left out since.
        self._written: dict[tuple[str, int], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record, or counts it as left out in the next line."""
        source, now = (record.name, record.levelno), self._clock.monotonic()
        last, left_out = self._written.get(source, (-math.inf, 0))
        if now - last < LIBRARY_SECONDS:
            self._written[source] = (last, left_out + 1)
            return
        self._written[source] = (now, 0)
        words = record.getMessage().strip().partition("\n")[0][:MAX_WORDS]
        fields: dict[str, Any] = {"library": record.name, "why": words}
        if left_out:
            fields["leftOut"] = left_out
        if record.exc_info and record.exc_info[1] is not None:
            log.error("error in a library", **fields, exc_info=record.exc_info)
        else:
            log.warning("message of a library", **fields)


class _StandardError:
    """Standard error. A full disk or a closed pipe loses log lines, but never the answers to requests."""

    def write(self, line: bytes) -> None:
        """Writes a line, if that is possible."""
        with suppress(OSError):
            sys.stderr.buffer.write(line)

    def flush(self) -> None:
        """Flushes written lines, if that is possible."""
        with suppress(OSError):
            sys.stderr.buffer.flush()


log = structlog.get_logger("rollcall")


def log_verdict(endpoint: str, request: Request, verdict: Verdict) -> None:
    """Logs a call that changed or refused an object. Other calls are not logged."""
    log.info(
        verdict.decision,
        endpoint=endpoint,
        uid=request.uid,
        operation=request.operation,
        kind=request.kind.kind,
        namespace=request.namespace,
        name=request.name,
        scheduler=verdict.scheduler,
        rules=sorted({finding.rule for finding in verdict.denials}),
    )


@contextmanager
def complaints_of(module: str) -> Iterator[list[str]]:
    """Collects the errors that a module of a library logs instead of raising. Only count them: the texts may quote the
    output of a program.
    """
    messages: list[str] = []

    class Complaints(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.module == module:
                messages.append(record.getMessage())

    handler = Complaints(logging.ERROR)
    logging.getLogger().addHandler(handler)
    try:
        yield messages
    finally:
        logging.getLogger().removeHandler(handler)
