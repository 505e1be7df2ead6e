"""Name the table in errors about a log, in a run that reads several tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from deltactl.errors import CorruptLogError, DeltactlError, name_table


@contextmanager
def naming(uri: str, *, hint: str | None = None) -> Iterator[None]:
    """Name a table in errors about its log, and in the commands of all hints.

    The innermost table counts. ``hint`` is added to the hints of errors about the log.
    """
    try:
        yield
    except DeltactlError as error:
        if isinstance(error, CorruptLogError) and error.table is None:
            error.table = uri
            if uri not in error.message:
                error.message = f"in {uri}: {error.message}"
                error.args = (error.message,)
            error.hint = " ".join(filter(None, (error.hint, hint))) or None
        if error.hint is not None:
            error.hint = name_table(error.hint, uri)
        raise
