"""Logs: JSON lines on standard error, one a denial or patch; readable lines on a terminal. Never a body."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog

from webhook.model.admission_request import Request, Verdict


def configure() -> None:
    """Set logging up, once a process."""
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    shared: list[Any] = [structlog.processors.add_log_level, stamp]
    if sys.stderr.isatty():
        structlog.configure(
            processors=[*shared, structlog.dev.ConsoleRenderer()],
            logger_factory=structlog.PrintLoggerFactory(sys.stderr),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        )
    else:
        structlog.configure(
            processors=[*shared, structlog.processors.format_exc_info, structlog.processors.JSONRenderer(orjson.dumps)],
            logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
            cache_logger_on_first_use=True,
        )


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
        rules=[finding.rule for finding in verdict.denials],
    )
