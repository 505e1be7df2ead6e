"""Check the places of source and target, and the content of the target before the run."""

from __future__ import annotations

from typing import Final

from deltactl.errors import ConflictError, SafetyError, StorageError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.clone.progress import PROGRESS_FILE, CloneProgress, read_progress
from deltactl.protocol.paths import decode_path
from deltactl.storage.names import OWN_DIR, parse_scheme
from deltactl.storage.store import Store

ELSEWHERE: Final = "Choose an empty directory outside the source for the clone."


def ensure_apart(source: Store, target: Store) -> None:
    """Refuse a target that is the source, is inside the source, or contains the source.

    Raises:
        SafetyError: the message has both.
    """
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


def _place_in(outer: Store, inner: Store) -> str | None:
    """Return the name of one root below another, ``""`` if equal; ``None`` if it is outside."""
    try:
        (name,) = outer.real_names([root_text(inner)])
    except StorageError:  # on another kind of storage
        return None
    return name


def root_text(store: Store) -> str:
    """Return the decoded address of a root, in the form of names in a log: ``file:/x``."""
    if parse_scheme(store.uri) == "file":
        return "file:" + decode_path(store.uri.removeprefix("file://"))
    return store.uri


def find_progress(target: Store) -> CloneProgress | None:
    """Return the record of a clone that did not finish; ``None`` if the target is empty.

    Raises:
        ConflictError: another run created a table in the target during this run.
        SafetyError: the target has other files.
    """
    progress = read_progress(target)
    if progress is not None:
        return progress
    for batch in target.walk():
        for name in batch:
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
    return None
