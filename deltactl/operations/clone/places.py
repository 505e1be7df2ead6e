"""Check the places of source and target, and the content of the target before the run.

An unfinished deep clone is recorded in ``_deltactl/clone.json`` of the target, with a lease: the
record is written before the first file is copied, and deleted after the commit. So a directory with
the record and without a log contains only copies of files of that source, and another run may
continue.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    MALFORMED,
    ConflictError,
    LeaseHeldError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    ignore_warning,
)
from deltactl.log.delta_log import DeltaLog
from deltactl.log.table_probe import PROGRESS_FILE
from deltactl.operations.leases import Holder, hold_lease
from deltactl.operations.run_context import RunContext
from deltactl.operations.vacuum.spellings import fold_names
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import OWN_DIR, is_utf8, parse_scheme
from deltactl.storage.store import Store

ELSEWHERE: Final = "Choose an empty directory outside the source for the clone."


def ensure_apart(source: Store, target: Store) -> None:
    """Refuse a target that is the source, is inside the source, or contains the source.

    If two endpoints are names of one server, later checks find that the target is not empty, or
    that there is a table above it.

    Raises:
        SafetyError: the message has both.
    """
    if are_on_other_servers(source, target):
        return
    for outer, inner in ((source, target), (target, source)):
        place = _place_in(outer, inner)
        if place == "":
            raise SafetyError(f"source and target are the same table: {source.uri}", hint=ELSEWHERE)
        if place is not None:
            what = "source" if outer is source else "target"
            raise SafetyError(
                f"{inner.uri} is inside the {what} {outer.uri}: a table cannot be inside another",
                hint=ELSEWHERE,
            )


def are_on_other_servers(source: Store, target: Store) -> bool:
    """Return whether an address has other files in the other store; false if it is not known."""
    copies = [store.file_copies for store in (source, target)]
    servers = {it.origin_of(PROGRESS_FILE).server if it else "" for it in copies}
    return len(servers - {""}) > 1


def _place_in(outer: Store, inner: Store) -> str | None:
    """Return the name of one root below another, ``""`` if equal; ``None`` if it is outside."""
    try:
        (name,) = outer.real_names([root_text(inner)])
    except StorageError:  # on another kind of storage
        return None
    return name


def root_text(store: Store) -> str:
    """Return the decoded address of a root, in the form of names in a log: ``file:/x``.

    Raises:
        UnsupportedFeatureError: it is not UTF-8.
    """
    if parse_scheme(store.uri) != "file":
        return store.uri
    path = uri_to_path(store.uri)
    if not is_utf8(path):
        raise UnsupportedFeatureError(
            f"the path of {store.uri} is not UTF-8, which clones do not support",
            hint="Move the table to a path that is UTF-8, or choose such a path for the clone.",
        )
    return f"file:{path}"


@dataclass(frozen=True, slots=True)
class CloneProgress:
    """The source of the copies: its address, its table id, and its version."""

    source: str
    table_id: str
    version: int


def _read_progress(target: Store) -> CloneProgress | None:
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


def find_unfinished(target: Store, wanted: CloneProgress) -> bool:
    """Return whether the target has an unfinished clone of the source; refuse other content.

    Raises:
        ConflictError: another run created a table in the target during this run.
        SafetyError: the target has other files, or an unfinished clone of another table.
    """
    found = _read_progress(target)
    if found is None:
        _ensure_empty(target)
        return False
    if found.table_id != wanted.table_id:
        raise SafetyError(
            f"{target.uri} contains an unfinished clone of {found.source} (table "
            f"{found.table_id}), not of {wanted.source} (table {wanted.table_id})",
            hint=f"Choose another directory, or delete the directory {target.uri} and rerun.",
        )
    return True


def _ensure_empty(target: Store) -> None:
    for part in target.walk_tree(lambda directory: True):
        for name in (*part.files, *part.links, *part.unaddressable):
            if not name.startswith(f"{OWN_DIR}/"):
                if DeltaLog(target, ignore_warning).exists:
                    raise ConflictError(
                        f"another run created a Delta table in the clone target {target.uri} "
                        "after this run had started; this run copied nothing",
                        hint="Rerun to see whether that table is already the wanted clone.",
                    )
                raise SafetyError(
                    f"{target.uri} is not empty: it contains {name!r}, but not the file "
                    f"{PROGRESS_FILE}, which marks an unfinished clone",
                    hint="Choose an empty directory. If an unfinished clone left these files, "
                    f"delete the directory {target.uri} and rerun.",
                )


def ensure_distinct_names(target: Store, names: pa.ChunkedArray, present: str) -> None:
    """Refuse names that the target takes for one file: a copy would replace another.

    Spark gives the files of one task the same name in each partition, such as those of ``DE`` and
    ``de``.

    ``names`` are those of the copies; ``present`` is a file that the target has.

    Raises:
        SafetyError: there are such names.
    """
    names = pc.unique(names)
    folded = fold_names(names)
    if len(pc.unique(folded)) == len(names):
        return
    if target.stat_many([present.swapcase()]) == [None]:
        return
    counts = pc.value_counts(folded)
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    first, second, *_ = names.filter(pc.equal(folded, repeated[0])).to_pylist()
    raise SafetyError(
        f"{target.uri} does not distinguish upper and lower case: {first!r} and {second!r} would "
        "be the same file",
        hint="Choose storage that distinguishes upper and lower case, such as an object store. "
        "Nothing was copied.",
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
