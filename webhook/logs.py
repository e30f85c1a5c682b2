"""Logs: JSON lines on standard error, one a denial or patch; readable lines on a terminal.

Never a body, nor what an object holds: an error that may quote one is told by `outline`, and a fault of ours by
`told_fault`, which leaves out the words of the exception.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, BinaryIO, cast

import orjson
import structlog

from webhook.model.admission_request import Request, Verdict


def configure() -> None:
    """Set logging up, once a process."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    # What a trace binds, its id.
    shared: list[Any] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, stamp]
    if sys.stderr.isatty():
        structlog.configure(
            # Plain, because the pretty one shows the local variables: bodies.
            processors=[*shared, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[*shared, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(orjson.dumps)],
            logger_factory=structlog.BytesLoggerFactory(cast("BinaryIO", _StandardError())),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        )


class _StandardError:
    """Standard error, where a full disk or a closed pipe costs the lines, and never the answers that they tell of."""

    def write(self, line: bytes) -> None:
        """Write a line, if that is possible."""
        with suppress(OSError):
            sys.stderr.buffer.write(line)

    def flush(self) -> None:
        """Send what was written on its way, if that is possible."""
        with suppress(OSError):
            sys.stderr.buffer.flush()


log = structlog.get_logger("rollcall")


def decided(endpoint: str, request: Request, verdict: Verdict) -> None:
    """The line for a call that changed or refused something; the others leave none."""
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
