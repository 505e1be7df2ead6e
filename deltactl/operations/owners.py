"""Find the tables that own files with absolute names, as the source of a shallow clone.

Files whose whole table is away (moved, or on storage that is not mounted) are not lost: a run that
omits them would remove all rows of a shallow clone.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import DeltactlError, SafetyError, ignore_warning
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from deltactl.log.physical_names import locate_or_keep
from deltactl.log.table_probe import has_log
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.storage.names import is_absolute_name
from deltactl.storage.open import open_directory
from deltactl.storage.store import Store
from deltactl.storage.write_guard import refuse_changes
from deltactl.units import format_count


@dataclass(frozen=True, slots=True)
class Owner:
    """Another table that has files of a table: their absolute names, by their names in it."""

    store: Store
    names: Mapping[str, str]


def find_owners(
    names: Iterable[str], storage_options: Mapping[str, str], *, read_only: bool = True
) -> tuple[list[Owner], dict[str, str]]:
    """Return the tables of files with absolute names, and why the tables of others are not known.

    Other names are ignored, and files that are in no table. ``read_only``: the stores refuse
    changes.
    """
    stores: dict[str, Store] = {}
    owned: dict[str, dict[str, str]] = defaultdict(dict)
    unknown: dict[str, str] = {}
    folders: dict[str, list[str]] = defaultdict(list)
    for name in filter(is_absolute_name, names):
        folders[posixpath.dirname(name)].append(name)
    for folder, paths in folders.items():
        root = next((it for it in stores if f"{folder}/".startswith(f"{it}/")), None)
        try:
            opened = None if root else _open_owner(folder, storage_options)
        except DeltactlError as error:
            unknown |= dict.fromkeys(paths, error.message)
            continue
        if opened is not None:
            root, store = opened
            stores[root] = refuse_changes(store) if read_only else store
        if root is not None:
            owned[root] |= {path.removeprefix(f"{root}/"): path for path in paths}
    return [Owner(stores[root], own) for root, own in owned.items()], unknown


def _open_owner(directory: str, storage_options: Mapping[str, str]) -> tuple[str, Store] | None:
    """Return the nearest table that contains a directory: its absolute name, and its store.

    Raises:
        StorageError, UsageError: a directory cannot be opened or listed.
    """
    while is_absolute_name(directory) and directory.strip("/"):
        store = open_directory(directory, storage_options)
        if has_log(store):
            return directory, store
        directory = posixpath.dirname(directory)
    return None


RESTORE_OLDER: Final = "restore a version that does not use them, and write again what is newer"


@dataclass(frozen=True, slots=True)
class Away:
    """Files of another table that is not at its address; ``move``: what is there must go first."""

    problem: str
    move: bool = False

    def refusal(self, rest: str) -> SafetyError:
        """Return the error; ``rest``: what to do if the other table was deleted."""
        move = "; first move what is at this address now" if self.move else ""
        backup = ", or restored from a backup without these files" if self.move else ""
        return SafetyError(
            f"{self.problem}: the table was moved{backup}, or its storage is not mounted",
            hint="Rerun when the old address leads to the other table, for example by a symbolic "
            f"link{move}. If that table was deleted{backup}, the rows in these files are lost: "
            f"{rest}.",
        )


def find_away(
    store: Store, names: Iterable[str], storage_options: Mapping[str, str]
) -> Away | None:
    """Return the missing files that are of another table, if one is away.

    A table is away if no directory above the file has a log, and its own directory has no files; or
    if the log there has all its commits, and none of them has such a file. Names of files in the
    table itself are ignored.
    """
    names = list(filter(is_absolute_name, names))
    own = store.real_names(names)
    outside = [name for name, own_name in zip(names, own, strict=True) if own_name is None]
    present: list[str] = []
    for name in outside:
        if any(name.startswith(f"{folder}/") for folder in present):
            continue
        folder = _find_present(store, name)
        if folder is None:
            return Away(_describe(store, name, len(outside), "no table is at this address"))
        present.append(folder)
    for owner in find_owners(outside, storage_options)[0]:
        if not knows_files(owner):
            what = f"no commit of the table that is now at {owner.store.uri} has them"
            name = min(owner.names.values())
            return Away(_describe(store, name, len(outside), what), move=True)
    return None


def knows_files(owner: Owner) -> bool:
    """Return whether the log of a table has one of its files, or may have had one."""
    log, adds = DeltaLog(owner.store, ignore_warning), _Adds(owner)
    try:
        if not log.has_commits(0, log.latest_version):
            return True
        log.scan(range(log.latest_version + 1), adds)
    except DeltactlError:
        return True
    return adds.are_known


class _Adds(Visitor):
    """Finds out whether commits of a table add one of its files."""

    def __init__(self, owner: Owner) -> None:
        super().__init__()
        self._store, self._own = owner.store, pa.array(owner.names.keys(), pa.string())
        self.are_known = False

    def see(self, commit: CommitBytes) -> bool:
        """Return whether none was found yet."""
        return not self.are_known

    def visit(self, commits: ParsedCommits) -> None:
        """Compare the names of added files."""
        vectors = vector_files(commits.adds["deletion_vector"]).drop_null()
        chunks = [*commits.adds["path"].chunks, *vectors.chunks]
        named = locate_or_keep(self._store, pa.chunked_array(chunks, pa.string()))
        self.are_known |= bool(pc.any(pc.is_in(self._own, value_set=named)).as_py())


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


def _describe(store: Store, name: str, count: int, what: str) -> str:
    files = format_count(count, "file")
    return (
        f"{store.uri} uses {files} of another table that cannot be found, such as {name!r}, and "
        f"{what}"
    )
