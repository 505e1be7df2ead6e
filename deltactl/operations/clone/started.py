"""The record and the lease of a deep clone at work: ``_deltactl/clone.json`` in the target.

It is written before the first file is copied, and deleted after the commit. So a folder with it and
without a log holds copies of that source's files only, and another run may continue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from deltactl.errors import MALFORMED, LeaseHeldError, ObjectNotFoundError, SafetyError
from deltactl.operations.run_context import RunContext
from deltactl.operations.turns import Holder, hold_lease
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store

STARTED: Final = f"{OWN_DIR}/clone.json"


@dataclass(frozen=True, slots=True)
class Started:
    """What is copied: the source's address, the id of its table, and its version."""

    source: str
    table_id: str
    version: int


def read_started(target: Store) -> Started | None:
    """Return the record of an unfinished clone, if there is one.

    Raises:
        SafetyError: it cannot be understood.
    """
    try:
        found = json.loads(target.read(STARTED))
        return Started(str(found["source"]), str(found["table_id"]), int(found["version"]))
    except ObjectNotFoundError:
        return None
    except MALFORMED as error:
        raise SafetyError(
            f"{STARTED} of {target.uri} does not identify the source of the unfinished clone",
            hint=f"Delete the directory {target.uri} and rerun.",
        ) from error


def write_started(target: Store, started: Started) -> None:
    """Store the record, durably."""
    target.put(STARTED, json.dumps(asdict(started), ensure_ascii=False, indent=2).encode())


def ensure_same_source(target: Store, found: Started, wanted: Started) -> None:
    """Refuse to continue the clone of another table.

    Raises:
        SafetyError: naming it.
    """
    if found.table_id != wanted.table_id:
        raise SafetyError(
            f"{target.uri} contains an unfinished clone of {found.source} (table "
            f"{found.table_id}), "
            f"not of {wanted.source} (table {wanted.table_id})",
            hint="Choose another directory, or delete this one and rerun.",
        )


@contextmanager
def exclusive(target: Store, context: RunContext) -> Iterator[None]:
    """Hold the target's lease, so that no two runs copy into it.

    Raises:
        LeaseHeldError: another run does.
    """
    holder = Holder.here(context.run_id or context.clock.new_id(), context.clock)
    try:
        with hold_lease(target, "clone", holder, clock=context.clock, warn=context.warn):
            yield
    except LeaseHeldError as error:
        raise LeaseHeldError(error.message, hint="Rerun when that run has ended.") from error
