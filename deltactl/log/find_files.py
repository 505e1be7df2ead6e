"""Find which of many files exist, and their sizes, with few requests.

On stores behind a network, files with adjacent names in a directory are listed in pages instead of
one request each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Final

from deltactl.errors import SafetyError, StorageError
from deltactl.protocol.paths import is_absolute
from deltactl.storage.names import is_local_uri, is_plain_name, resolve_name
from deltactl.storage.parallel import each_in_parallel
from deltactl.storage.store import FileInfo, Store

# A page of a listing has at least a thousand names and needs one request, as a single file does.
_LEAST_WANTED: Final = 8
_NAMES_A_FILE: Final = 100  # how many names a listing may have for each that is wanted
_PAGE: Final = 1000


def find_files(
    store: Store, names: Sequence[str], beside: Sequence[str] = ()
) -> tuple[dict[str, FileInfo | None], frozenset[str]]:
    """Return the facts of each name (``None`` if missing), and the names on other storage.

    The names ``beside`` are looked up too if this needs no request of its own: on a file system,
    and in a listing of a directory that has ``names``, if it is not too long.
    """
    found: dict[str, FileInfo | None] = {}
    if is_local_uri(store.uri):
        names = [*names, *beside]
    else:
        others = _group_by_directory(beside)
        groups = [(at, own, others.get(at, ())) for at, own in _group_by_directory(names).items()]
        listed = [group for group in groups if group[2] or len(group[1]) >= _LEAST_WANTED]
        for part in each_in_parallel(lambda group: _list_range(store, *group), listed):
            found |= part
    asked = [name for name in names if name not in found and not is_absolute(name)]
    found |= zip(asked, store.stat_many(asked), strict=True)
    placed, elsewhere = _stat_absolute(store, [name for name in names if is_absolute(name)])
    return found | placed, elsewhere


def _stat_absolute(
    store: Store, names: Sequence[str]
) -> tuple[dict[str, FileInfo | None], frozenset[str]]:
    """Return facts of absolute names, in one request if all are on the store's storage."""
    if not names:
        return {}, frozenset()
    try:
        return dict(zip(names, store.stat_many(names), strict=True)), frozenset()
    except StorageError as error:
        # Such an error says nothing about where the files are.
        if error.retryable:
            raise
        if len(names) == 1:
            return {}, frozenset(names)
    parts = [_stat_absolute(store, [name]) for name in names]
    placed = {name: info for found, _ in parts for name, info in found.items()}
    return placed, frozenset().union(*(elsewhere for _, elsewhere in parts))


def find_path_problem(name: str) -> str | None:
    """Return why a relative name is invalid for a file below the root, if it is."""
    try:
        resolve_name(name)
    except (SafetyError, StorageError) as error:
        return error.message
    return None


def is_placed(name: str) -> bool:
    """Return whether the store can check a name: absolute, or of a file below the root."""
    return is_absolute(name) or find_path_problem(name) is None


def _group_by_directory(names: Sequence[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        directory, slash, _ = name.rpartition("/")
        if is_plain_name(name) and not is_absolute(name):
            groups[directory if slash else ""].append(name)
    return groups


def _list_range(
    store: Store, directory: str, names: list[str], beside: Collection[str] = ()
) -> dict[str, FileInfo | None]:
    """Return facts of all names from one listing; ``None`` if it has too many others."""
    wanted = [*names, *beside]
    first, last = (choose(wanted, key=str.encode) for choose in (min, max))
    # A page costs one request, even if few of its names are wanted.
    most = max(_PAGE, _NAMES_A_FILE * len(names)) if beside else _NAMES_A_FILE * len(names)
    listed: dict[str, FileInfo] = {}
    for info in islice(store.list_from(directory, first.rpartition("/")[2]), most):
        listed[info.name] = info
        if info.name.encode() >= last.encode():
            break
    else:
        # The listing was cut off, so it does not show that a name is missing.
        if len(listed) == most:
            # Without the names beside, the range may be short enough.
            can_list = beside and len(names) >= _LEAST_WANTED
            return _list_range(store, directory, names) if can_list else {}
    return {name: listed.get(name) for name in wanted}
