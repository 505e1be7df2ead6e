"""Seed bugs in the records of shallow clones."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from deltactl.operations.clone import run as clone
from deltactl.operations.clone.noting import Noted, with_clone_note
from deltactl.operations.clone_notes import CloneNote
from tests.explorer.bug import Bug


def _note_last() -> AbstractContextManager[object]:
    @contextmanager
    def after(*args: Any, **options: Any) -> Iterator[Noted]:
        yield Noted(CloneNote("", 0, 0), ())
        with with_clone_note(*args, **options):
            pass

    return patch.object(clone, "with_clone_note", after)


def _look_for_no_vacuum() -> AbstractContextManager[object]:
    return patch.object(clone, "ensure_no_vacuum", lambda *args: None)


CLONE_BUGS: Sequence[Bug] = (
    Bug("a clone recorded after its commit", _note_last, "shallow clone against vacuum full",
        "a shallow clone keeps its files"),
    Bug("a clone that does not check for a running vacuum", _look_for_no_vacuum,
        "shallow clone against vacuum full", "a shallow clone keeps its files"),
)  # fmt: skip
