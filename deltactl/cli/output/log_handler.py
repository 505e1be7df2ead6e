"""Print the log of the library on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from deltactl.cli.output.output import Output


class _OutputHandler(logging.Handler):
    """A handler that passes log records of the library to the output."""

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
    """Print what the library logs: warnings always, info with ``-v``, debug with ``-vv``."""
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
