"""Print the log of deltactl and of the libraries that it uses on stderr."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from deltactl.cli.output.output import Output

_OWN: Final = "deltactl"


class _OutputHandler(logging.Handler):
    """A handler that passes log records to the output, and shows a record of a library as a note.

    What a library warns of, deltactl retries or raises as an error of its own.
    """

    def __init__(self, output: Output) -> None:
        super().__init__()
        self.output = output

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING and record.name.startswith(_OWN):
            self.output.warn(record.getMessage())
        else:
            self.output.note_record(record)


@contextmanager
def log_to(output: Output, verbose: int) -> Iterator[None]:
    """Print what deltactl logs: warnings always, info with ``-v``, debug with ``-vv``.

    Warnings of libraries are printed with ``-vv``.
    """
    own, root = logging.getLogger(_OWN), logging.getLogger()
    handler = _OutputHandler(output)
    # Without a handler of the root logger, Python would print what libraries log.
    handlers = {own: handler, root: handler if verbose > 1 else logging.NullHandler()}
    before = own.level, own.propagate
    for logger, its_handler in handlers.items():
        logger.addHandler(its_handler)
    own.setLevel([logging.WARNING, logging.INFO, logging.DEBUG][min(verbose, 2)])
    own.propagate = False
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        for logger, its_handler in handlers.items():
            logger.removeHandler(its_handler)
        own.setLevel(before[0])
        own.propagate = before[1]
