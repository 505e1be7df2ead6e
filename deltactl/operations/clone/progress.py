"""Record an unfinished deep clone in ``_deltactl/clone.json`` of the target, with a lease.

The record is written before the first file is copied, and deleted after the commit. So a directory
with the record and without a log contains only copies of files of that source, and another run may
continue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

from deltactl.errors import MALFORMED, LeaseHeldError, ObjectNotFoundError, SafetyError
from deltactl.operations.leases import Holder, hold_lease
from deltactl.operations.run_context import RunContext
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store

PROGRESS_FILE: Final = f"{OWN_DIR}/clone.json"


@dataclass(frozen=True, slots=True)
class CloneProgress:
    """The source of the copies: its address, its table id, and its version."""

    source: str
    table_id: str
    version: int


def read_progress(target: Store) -> CloneProgress | None:
    """Return the record of an unfinished clone, if there is one.

    Raises:
        SafetyError: it is not valid.
    """
    try:
        found = json.loads(target.read(PROGRESS_FILE))
        return CloneProgress(str(found["source"]), str(found["table_id"]), int(found["version"]))
    except ObjectNotFoundError:
        return None
    except MALFORMED as error:
        raise SafetyError(
            f"the file {PROGRESS_FILE} in {target.uri} does not say which table the unfinished "
            "clone copies",
            hint=f"Delete the directory {target.uri} and rerun.",
        ) from error


def write_progress(target: Store, progress: CloneProgress) -> None:
    """Store the record, durably."""
    target.put(PROGRESS_FILE, json.dumps(asdict(progress), ensure_ascii=False, indent=2).encode())


def ensure_same_source(target: Store, found: CloneProgress, wanted: CloneProgress) -> None:
    """Refuse to continue the clone of another table.

    Raises:
        SafetyError: the message has the other table.
    """
    if found.table_id != wanted.table_id:
        raise SafetyError(
            f"{target.uri} contains an unfinished clone of {found.source} (table "
            f"{found.table_id}), "
            f"not of {wanted.source} (table {wanted.table_id})",
            hint=f"Choose another directory, or delete the directory {target.uri} and rerun.",
        )


@contextmanager
def exclusive(target: Store, context: RunContext) -> Iterator[None]:
    """Hold the target's lease, so that no two runs copy into it.

    Raises:
        LeaseHeldError: another run holds it.
    """
    holder = Holder.here(context.run_id or context.clock.new_id(), context.clock)
    try:
        with hold_lease(target, "clone", holder, clock=context.clock, warn=context.warn):
            yield
    except LeaseHeldError as error:
        raise LeaseHeldError(error.message, hint="Rerun when that run has ended.") from error
