"""Logging: a short constant message plus fields, one line each.

    log = get_logger("scheduler")
    log.info("bound", pod=name, node=node)

Never a sentence with holes, never a secret. Components write to standard error; `hekla up` keeps each
component's lines in its own file.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_ROOT = "hekla"


class FieldLogger:
    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, **fields: Any) -> None:
        self._write(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._write(logging.ERROR, message, fields)

    def exception(self, message: str, **fields: Any) -> None:
        """An error with the traceback of the exception being handled; for the loops that must survive."""
        self._write(logging.ERROR, message, fields, exc_info=True)

    def _write(self, level: int, message: str, fields: dict[str, Any], *, exc_info: bool = False) -> None:
        if self._logger.isEnabledFor(level):
            text = " ".join([message, *(f"{key}={_value(value)}" for key, value in fields.items())])
            self._logger.log(level, "%s", text, exc_info=exc_info)


def get_logger(component: str) -> FieldLogger:
    return FieldLogger(logging.getLogger(f"{_ROOT}.{component}"))


def configure_logging(level: str = "info") -> None:
    """Send the log to standard error. Called once, by whoever owns the process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s"))
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


@contextmanager
def silenced(component: str) -> Iterator[None]:
    """Nothing of a component is written meanwhile: for doing again what has had its say."""
    logger = logging.getLogger(f"{_ROOT}.{component}")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _value(value: Any) -> str:
    text = str(value)
    return repr(text) if not text or any(c.isspace() or c in "\"'=" for c in text) else text
