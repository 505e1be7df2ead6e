"""Find the tables that match a glob: directories with a ``_delta_log``.

``*``, ``?`` and ``[...]`` match within a part of an address, ``**`` any number of parts. Tables,
directories whose name begins with ``.`` or ``_``, and ``lost+found`` are not searched.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from deltactl.errors import NotATableError, StorageError, UsageError
from deltactl.log.table_probe import LOG_MARKERS, has_log, log_directory
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.storage.names import OWN_DIR
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import Store

OpenStore = Callable[[str], Store]

_MAGIC: Final = re.compile(r"[*?\[]")
_QUERY: Final = re.compile(r"\?.*=")
_SKIPPED: Final = re.compile(r"[._]|lost\+found\Z")  # the latter is the file system's, for fsck


def is_glob(address: str) -> bool:
    """Return whether an address is a glob."""
    is_signed = "://" in address and _QUERY.search(address)
    return _MAGIC.search(address) is not None and not is_signed


def find_tables(pattern: str, open_store: OpenStore) -> list[str]:
    """Return the addresses of the tables that match a glob, sorted.

    An address that is a table itself matches only that table, even if it contains glob characters.

    Raises:
        UsageError: the bucket is a glob.
        NotATableError: no table matches.
        StorageError: the directory of the glob cannot be listed.
    """
    root, parts = split_glob(pattern)
    if is_table(open_store(pattern)):
        return [pattern]
    store = open_store(root)
    base = "" if root == "." else f"{root.rstrip('/')}/"
    found = sorted(_search(store, parts))
    if not found:
        raise NotATableError(
            f"no Delta table matches {pattern!r}",
            hint="Give a glob that matches directories with a _delta_log. Quote the glob, so that "
            "the shell does not expand it.",
        )
    return [base + name for name in found]


def is_table(store: Store, folder: str = "") -> bool:
    """Return whether a directory has a log that is not empty.

    For most tables, a check of two names is enough; the log, which may be long, is listed only if
    both do not exist.
    """
    base = f"{folder}/" if folder else ""
    if any(store.stat_many([base + name for name in LOG_MARKERS])):
        return True
    return has_log(store, folder)


def split_glob(pattern: str) -> tuple[str, list[str]]:
    """Split a glob into the address before its first part with a wildcard, and the other parts.

    Raises:
        UsageError: the bucket, or the scheme, is a glob.
    """
    scheme, separator, rest = pattern.rpartition("://")
    parts = rest.rstrip("/").split("/")
    first = next((i for i, part in enumerate(parts) if _MAGIC.search(part)), 0)
    if separator and first == 0:  # also if the scheme has a wildcard
        raise UsageError(
            f"{pattern!r}: the name of a bucket cannot be a glob",
            hint="Give an address for each bucket; the part after the bucket may be a glob.",
        )
    before = "/".join(parts[:first])
    if not separator and first:
        before = before or "/"  # an absolute path
    return scheme + separator + before or ".", [part for part in parts[first:] if part]


def _search(store: Store, parts: Sequence[str]) -> set[str]:
    """Return the names of the tables below the root of ``store`` that match ``parts``.

    A directory that cannot be read counts as a table: then the run on it fails, and not the others.
    """
    found: set[str] = set()
    seen: set[tuple[str, int]] = set()
    # Directories of one depth, and the part that their children must match.
    level = {("", at) for at in _positions(parts, 0)}
    while level := _without_seen(store, level, seen):
        ended = sorted({folder for folder, at in level if at == len(parts) and folder})
        is_a_table = each_in_parallel(lambda folder: _may_be_table(store, folder), ended)
        found |= {folder for folder, yes in zip(ended, is_a_table, strict=True) if yes}
        going_on = sorted((f, at) for f, at in level if at < len(parts) and f not in found)
        below = each_in_parallel(lambda state: _try_step(store, parts, *state), going_on)
        level = set()
        for (folder, _), states in zip(going_on, below, strict=True):
            if states is None:
                found.add(folder)
            else:
                level.update(states)
    return found


def _without_seen(
    store: Store, level: set[tuple[str, int]], seen: set[tuple[str, int]]
) -> set[tuple[str, int]]:
    """Return those that were not reached by another name before: symbolic links may form loops."""
    ordered = sorted(level)
    names = store.real_names([folder for folder, _ in ordered])
    new: dict[tuple[str, int], tuple[str, int]] = {}
    for (folder, at), name in zip(ordered, names, strict=True):
        new.setdefault((folder if name is None else name, at), (folder, at))
    kept = {state for key, state in new.items() if key not in seen}
    seen.update(new)
    return kept


def _may_be_table(store: Store, folder: str) -> bool:
    """Return whether a directory has a log, or had one: then the run on it fails.

    It had one if its log is empty, or if it has files of an earlier run of deltactl, but is not the
    ``--output-root`` of manifests.
    """
    try:
        if is_table(store, folder):
            return True
        names = store.list_directories(folder)
        if log_directory(folder) in names:
            return True
        return f"{folder}/{OWN_DIR}" in names and not _has_only_manifests(store, folder, names)
    except StorageError:
        return True


def _has_only_manifests(store: Store, folder: str, directories: Sequence[str]) -> bool:
    """Return whether a directory has manifests, and no data files that a table may have."""
    if f"{folder}/{MANIFEST_DIR}" not in directories:
        return False
    if any("=" in directory.rpartition("/")[2] for directory in directories):  # partitions
        return False
    return not any(info.name.endswith(".parquet") for info in store.list_from(folder))


def _try_step(
    store: Store, parts: Sequence[str], folder: str, at: int
) -> list[tuple[str, int]] | None:
    """Return the directories below; ``None`` if this one, below the root, cannot be read."""
    try:
        return _step(store, parts, folder, at)
    except StorageError:
        if not folder:
            raise
        return None


def _positions(parts: Sequence[str], at: int) -> Iterator[int]:
    """Yield the position, and the next ones after ``**``, which may match nothing."""
    yield at
    while at < len(parts) and parts[at] == "**":
        at += 1
        yield at


def _step(store: Store, parts: Sequence[str], folder: str, at: int) -> list[tuple[str, int]]:
    """Return the directories one level down that match so far."""
    part, base = parts[at], f"{folder}/" if folder else ""
    if not _MAGIC.search(part):
        return [(base + part, after) for after in _positions(parts, at + 1)]
    below = store.list_directories(folder)
    if log_directory(folder) in below:
        return []
    names = [(name, name.rpartition("/")[2]) for name in below]
    matching = [
        name
        for name, last in names
        if not _SKIPPED.match(last) and (part == "**" or fnmatch.fnmatchcase(last, part))
    ]
    after = list(_positions(parts, at if part == "**" else at + 1))
    return [(name, position) for name in matching for position in after]
