"""The library's log, on the way to stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from deltactl.cli.output.output import Output


class _OutputHandler(logging.Handler):
    """Brings log records of the library to the output."""

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output = output

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.output.warn(record.getMessage())
        else:
            self.output.note_record(record)


@contextmanager
def log_to(output: Output, verbose: int) -> Iterator[None]:
    """Show what the library logs: warnings always, ``-v`` info, ``-vv`` debug."""
    logger = logging.getLogger("deltactl")
    handler = _OutputHandler(output)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
