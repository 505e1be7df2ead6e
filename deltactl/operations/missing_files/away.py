"""Find missing files whose whole table is away: moved, or on storage that is not mounted.

Such files are not lost. A run that omits them would remove all rows of a shallow clone.
"""

from __future__ import annotations

from collections.abc import Iterable

from deltactl.errors import SafetyError
from deltactl.log.table_probe import has_log
from deltactl.operations.missing_files.find import Missing
from deltactl.storage.names import is_absolute_name
from deltactl.storage.store import Store


def find_away_refusal(store: Store, missing: Iterable[Missing]) -> SafetyError | None:
    """Return the refusal of a restore if missing files are of another table that is away.

    A table is away if no directory above the file has a log, and its own directory has no files.
    """
    names = [it.path for it in missing if is_absolute_name(it.path)]
    own = store.real_names(names)
    outside = [name for name, own_name in zip(names, own, strict=True) if own_name is None]
    present: list[str] = []
    for name in outside:
        if any(name.startswith(f"{folder}/") for folder in present):
            continue
        folder = _find_present(store, name)
        if folder is None:
            return _explain(store, name, len(outside))
        present.append(folder)
    return None


def _find_present(store: Store, name: str) -> str | None:
    """Return the directory of the file if it has files; or the one above it that has a log."""
    folder = name.rpartition("/")[0]
    if next(iter(store.list_from(folder)), None) is not None:
        return folder
    while folder.strip("/") and not folder.endswith(":/"):
        if has_log(store, folder):
            return folder
        folder = folder.rpartition("/")[0]
    return None


def _explain(store: Store, name: str, count: int) -> SafetyError:
    return SafetyError(
        f"{store.uri} uses {count:,} files of another table that do not exist, such as {name!r}, "
        "and no table is at this address: it was moved, or its storage is not mounted",
        hint="Rerun when the old address leads to the other table, for example by a symbolic link. "
        "If that table was deleted, the rows in these files are lost: restore a version that does "
        "not use them.",
    )
