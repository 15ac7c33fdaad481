"""Logs: one JSON object a line on standard error (readable lines on a terminal).

The event word equals the row kind it belongs to, `run` and `call` always stand
beside it. Prompts, answers, URLs with passwords and the environment never do.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

_PASSWORD = re.compile(r"(?<=://)([^:/@\s]*):[^@/\s]+@")


def mask_url(text: str) -> str:
    """The text with every password inside a URL replaced by `***`."""
    return _PASSWORD.sub(r"\1:***@", text)


def _mask(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {key: mask_url(value) if isinstance(value, str) else value for key, value in event.items()}


def configure_logging(process: str, level: str = "info") -> None:
    """Send this process's logs to standard error; `process` names it on every line."""
    renderer: Any = structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            # Not a context variable: each thread has its own, and most of what is said here is said in threads.
            lambda _logger, _method, event: {"process": process, **event},
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _mask,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


class _StandardError:
    """Whatever standard error is when something is written."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


# A process that configures nothing, a command for instance: its standard output holds its answer alone.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(file=_StandardError()))  # type: ignore[arg-type]


def get_logger() -> Any:
    """The process's logger: `log.info("placed", run=..., call=...)`."""
    return structlog.get_logger()
