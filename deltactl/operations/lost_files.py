"""Decide which missing files are lost, so that the log need not list them any longer.

A file is lost if two lookups of its own name do not find it, no other spelling of its name exists,
no other directory has a file of this name that the log does not have, and neither a quarantine nor
an object version has it. An error of a lookup is never an answer.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final
from unicodedata import normalize
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import ConflictError, DeltactlError, ObjectNotFoundError, SafetyError
from deltactl.log.find_files import is_placed
from deltactl.log.snapshot import Snapshot
from deltactl.operations.missing_files import (
    GONE,
    Missing,
    needs_missing,
)
from deltactl.operations.owners import Away, find_away, find_owners
from deltactl.operations.vacuum.journal import find_quarantined, quarantine_name
from deltactl.operations.vacuum.spellings import find_alike
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.paths import encode_path, is_absolute
from deltactl.protocol.vacuum_names import writer_mask
from deltactl.storage.store import Store
from deltactl.units import format_count

_OWN: Final = r"^(_delta|_change_data)"  # directories of the log, and of deltactl
_MOST_SHARE: Final = 20  # a twentieth of the files of a table


@dataclass(frozen=True, slots=True)
class LostFiles:
    """The live files that need a file that does not exist.

    ``files`` are rows of ``ADD_SCHEMA``; ``names`` has the file that is missing for each of them:
    the data file, or else that of its deletion vector. ``places`` says where a missing file may
    still be, or the right one if another file has its name. ``empty`` are the directories of
    missing files that have no file. ``num_gone`` counts all missing data files of the table.
    ``away``: files are of another table that is not at its address.
    """

    files: pa.Table = field(repr=False)
    names: pa.ChunkedArray = field(repr=False)
    places: Mapping[str, str] = field(repr=False)
    empty: frozenset[str] = frozenset()
    num_gone: int = 0
    away: Away | None = None

    @property
    def is_vector(self) -> pa.ChunkedArray:
        """Return a mask of the files of which only the deletion vector is missing."""
        return pc.not_equal(self.names, self.files["path"])

    def filter(self, mask: pa.ChunkedArray | pa.Array) -> LostFiles:
        """Return some of the files."""
        files, names = self.files.filter(mask), self.names.filter(mask)
        is_elsewhere = any(map(is_absolute, pc.unique(names).to_pylist()))
        return replace(self, files=files, names=names, away=self.away if is_elsewhere else None)


def find_lost(
    snapshot: Snapshot, missing: Sequence[Missing], storage_options: Mapping[str, str]
) -> LostFiles:
    """Look for missing files again, each by its own name, and at all places where they may be.

    ``storage_options`` are those of the table, for the tables whose files a shallow clone has.

    Raises:
        StorageError: a lookup failed.
        SafetyError: a link leads to storage without files, or a quarantine cannot be read.
    """
    store, asked = snapshot.store, [it.path for it in missing if is_placed(it.path)]
    gone = _find_gone(store, asked)
    lost = [Missing(name, "") for name in gone]
    parts = [ADD_SCHEMA.empty_table()]
    if lost:
        batches = snapshot.file_batches(ADD_SCHEMA.names)
        parts += [batch.filter(needs_missing(batch, lost)) for batch in batches]
    files = pa.concat_tables(parts).combine_chunks()
    is_data = pc.is_in(files["path"], value_set=pa.array(gone, pa.string()))
    names = pc.if_else(is_data, files["path"], vector_files(files["deletion_vector"]))
    if not asked:
        return LostFiles(files, names, {})
    texts = dict(zip(files["path"].to_pylist(), files["encoded_path"].to_pylist(), strict=True))
    places, empty = _find_spellings(store, gone, texts)
    places |= _find_moved(snapshot, files, [name for name in gone if not is_absolute(name)])
    num_gone = pc.sum(is_data).as_py() or 0
    places |= _find_kept(store, [name for name in asked if not is_absolute(name)], set(gone))
    places |= _find_kept_elsewhere(asked, set(gone), storage_options)
    away = find_away(store, gone, storage_options)
    return LostFiles(files, names, places, empty, num_gone, away)


def _find_moved(snapshot: Snapshot, files: pa.Table, gone: Sequence[str]) -> dict[str, str]:
    """Return where files in no action of the log have the last part of a missing name, and size.

    ``files`` are the files that need the missing ones.

    A tool that changes the case of names may have moved a directory, or a person. Other tables may
    have files of the same name if no Delta writer gave it.
    """
    ends = {name.rpartition("/")[2]: name for name in gone}
    asked = pa.chunked_array([pa.array(ends, pa.string())])
    ends = {end: ends[end] for end in asked.filter(writer_mask(asked)).to_pylist()}
    wanted, found = pa.array(ends, pa.string()), [pa.array([], pa.string())]
    for part in snapshot.store.walk() if ends else ():
        names = pa.array(part, pa.string())
        hit = pc.is_in(pc.replace_substring_regex(names, r"^.*/", ""), value_set=wanted)
        found.append(names.filter(hit))
    others = pa.concat_arrays(found)
    for batches in (snapshot.file_batches(["path"]), snapshot.tombstone_batches(["path"])):
        for batch in batches if len(others) else ():
            others = others.filter(pc.invert(pc.is_in(others, value_set=batch["path"])))
    names = others.filter(pc.invert(pc.match_substring_regex(others, _OWN))).to_pylist()
    infos = [info for info in snapshot.store.stat_many(names) if info is not None]
    moved = {(it.name.rpartition("/")[2], it.size_bytes): it.name for it in infos}
    vectors = {name: it for (name, _), it in moved.items()}  # their sizes are not in the log
    sizes = dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))
    text = "{!r} has the same file name, and is not in the log: perhaps it was moved"
    places = {}
    for end, name in ends.items():
        other = moved.get((end, sizes[name])) if name in sizes else vectors.get(end)
        if other is not None:
            places[name] = text.format(other)
    return places


def ensure_still_lost(store: Store, names: pa.ChunkedArray) -> None:
    """Look for files once more, right before the commit that removes them from the table.

    Raises:
        ConflictError: one exists again.
        StorageError: a lookup failed.
    """
    wanted = pc.unique(names).to_pylist()
    back = set(wanted) - set(_find_gone(store, wanted))
    if back:
        raise ConflictError(f"nothing was committed: {min(back)!r} exists again", hint="Rerun.")


def find_loss_refusal(
    uri: str,
    lost: LostFiles,
    count: int,
    total: int,
    expected: int | None,
    *,
    version: int | None = None,
) -> SafetyError | None:
    """Return why so many files must not be given up, if they must not.

    These are ``count`` of ``total`` files; ``lost`` has those that do not exist. ``expected`` is
    the number that the user gave. They are of an earlier ``version``, or else of the latest one.
    """
    is_all = bool(count) and total == (lost.num_gone if version is None else count)
    if count and lost.away is not None and (is_all or expected != count):
        return lost.away.refusal(_give_up(count, is_all=is_all, version=version))
    if is_all:
        return _refuse_loss_of_all(uri, total, version)
    folders = {name.rpartition("/")[0] for name in pc.unique(lost.names).to_pylist()}
    empty = folders & lost.empty
    if expected is None and count * _MOST_SHARE > total:
        reason = f"this is more than 5% of the {format_count(total, 'file')}"
    elif expected is None and empty:
        reason = f"the directory {min(empty)!r} has no files at all; perhaps it is not mounted"
    elif expected is not None and expected != count:
        reason = f"{expected:,} were expected"
    else:
        return None
    return SafetyError(
        f"{format_count(count, 'file')} cannot be read, and {reason}. Nothing was changed",
        hint="Inspect what deleted the files. If they are lost, rerun with "
        f"{option('expect_files', count)}.",
    )


def _give_up(count: int, *, is_all: bool, version: int | None) -> str:
    """Return what to do if the table that has the files was deleted."""
    if is_all and version is None:
        return "nothing of this table is left. Create it again"
    if is_all:
        return "restore another version"
    files = format_count(count, "missing file")
    return f"to go on without {files}, rerun with {option('expect_files', count)}"


def _refuse_loss_of_all(uri: str, total: int, version: int | None) -> SafetyError:
    """Return the refusal to give up all files of an earlier version, or else of the latest one."""
    files = format_count(total, "file")
    restorable = f"`deltactl describe-history {shlex.quote(uri)} --restorable`"
    if version is not None:
        return SafetyError(
            f"none of the {files} to restore from version {version} can be read",
            hint=f"Copy the files back, or restore another version: {restorable} shows which "
            "versions have all their files.",
        )
    return SafetyError(
        f"none of the {files} of {uri} exists: nothing shows that this is the storage of the table",
        hint="Remount the storage, or copy the files back. If they are lost, restore an older "
        f"version ({restorable}), or create the table again.",
    )


def find_kept_refusal(
    uri: str, omitted: pa.Table, removed: pa.Table, missing: Iterable[Missing], lost: LostFiles
) -> SafetyError | None:
    """Return why a restore must not omit files that need missing files, if it must not.

    ``omitted`` and ``removed`` are rows of ``ADD_SCHEMA``: ``removed`` leave the latest version.
    """
    problems = {it.path: it.problem for it in missing}
    live = omitted["path"].filter(pc.is_in(omitted["path"], value_set=removed["path"]))
    for path in live.to_pylist():
        if path not in problems:
            return SafetyError(
                f"{path!r} exists and is live, and only the deletion vector that it had in the "
                "version to restore cannot be read: without the file, its live rows would be lost",
                hint="Copy the deletion vector back from a backup. If the latest version needs it "
                f"too, `deltactl check {shlex.quote(uri)} --fix missing-vectors` says what can be "
                "chosen.",
            )
    for name, problem in problems.items():
        if name in lost.places:
            return SafetyError(
                f"{name!r} cannot be read ({problem}), but can perhaps be restored: "
                f"{lost.places[name]}",
                hint="Restore it, and all other such files, then rerun.",
            )
    if replaced := find_replaced(omitted, missing):
        return SafetyError(
            f"{replaced[0]!r} exists ({problems[replaced[0]]}): perhaps another program wrote to "
            "it, and a vacuum would delete it",
            hint="Move it, and all other such files, out of the table, and keep them. Then rerun. "
            "See `deltactl explain FILE_SIZE`.",
        )
    return None


def find_replaced(omitted: pa.Table, missing: Iterable[Missing]) -> list[str]:
    """Return the files of this table, also of vectors, whose size is not that in the log.

    The arguments are those of ``find_kept_refusal``.
    """
    other = [it.path for it in missing if it.problem != GONE and is_placed(it.path)]
    names = pa.array([name for name in other if not is_absolute(name)], pa.string())
    needed = [*omitted["path"].chunks, *vector_files(omitted["deletion_vector"]).chunks]
    is_needed = pc.is_in(names, value_set=pa.chunked_array(needed, pa.string()))
    found: list[str] = names.filter(is_needed).to_pylist()
    return found


def _find_gone(store: Store, names: Iterable[str]) -> list[str]:
    """Return the names that a lookup of this very name does not find."""
    asked = sorted(name for name in names if is_placed(name))
    found = store.stat_many(asked)
    return [name for name, info in zip(asked, found, strict=True) if info is None]


def _find_spellings(
    store: Store, gone: Sequence[str], texts: Mapping[str, str]
) -> tuple[dict[str, str], frozenset[str]]:
    """Return other spellings of the names that exist, and directories without files.

    Raises:
        SafetyError: a file is a link, or its directory is a link to storage without files.
    """
    places: dict[str, str] = {}
    empty = set()
    for folder, names in _by_folder(gone).items():
        listed = pa.chunked_array([[info.name for info in store.list_from(folder)]], pa.string())
        _ensure_no_links(store, folder, names, is_empty=not len(listed))
        if not len(listed):
            empty.add(folder)
        wanted = pa.chunked_array([names], pa.string())
        for name in find_alike(wanted, listed).to_pylist():
            places[name] = "a file with this name in another spelling is in its directory"
    candidates = [
        (name, other)
        for name in gone
        if not is_absolute(name)
        for other in _spell(name, texts.get(name, name))
    ]
    found = store.stat_many([other for _, other in candidates])
    for (name, other), info in zip(candidates, found, strict=True):
        if info is not None:
            places[name] = f"{other!r} exists, which may be the same file"
    return places, frozenset(empty)


def _by_folder(names: Iterable[str]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for name in names:
        folders.setdefault(name.rpartition("/")[0], []).append(name)
    return folders


def _spell(name: str, text: str) -> list[str]:
    """Return other names that a program may have given the file."""
    known = {name, text, unquote(name), quote(name), encode_path(name)}
    known |= {normalize(form, it) for it in known for form in ("NFC", "NFD")}
    return sorted(it for it in known - {name} if is_placed(it) and not is_absolute(it))


def _ensure_no_links(store: Store, folder: str, names: Sequence[str], *, is_empty: bool) -> None:
    """Refuse files that are links, and files behind a link to a directory if it has no files."""
    if is_absolute(folder or names[0]):
        return
    place, *found = store.real_names([folder, *names])
    for name, real in zip(names, found, strict=True):
        last = name.rpartition("/")[2]
        if place is not None and real != (f"{place}/{last}" if place else last):
            what = "a link to a file that does not exist"
        elif is_empty and real != name:
            what = "behind a link to a directory that has no files"
        else:
            continue
        raise SafetyError(
            f"{name!r} is {what}: perhaps its storage is not mounted. Nothing was changed",
            hint="Rerun when the link leads to the files.",
        )


def _find_kept(store: Store, names: Sequence[str], gone: Set[str]) -> dict[str, str]:
    """Return how files can be restored from object versions or the quarantine of a vacuum.

    A name that is not ``gone`` has another file, which stays as it is.
    """
    places: dict[str, str] = {}
    if store.versions is not None:
        deleted = sorted(gone & {*names})
        failed = store.versions.undelete_many(deleted, dry_run=True)
        for name in deleted:
            error = failed.get(name)
            if error is None:
                places[name] = "the bucket keeps an older version: restore it"
            elif not isinstance(error, ObjectNotFoundError):
                places[name] = f"it is not known whether an older version exists: {error.message}"
    for name, run_id in find_quarantined(store, names).items():
        first = "" if name in gone else "if the file that has its name is moved to another place, "
        command = f"deltactl vacuum {shlex.quote(store.uri)} --undo {run_id}"
        kept = quarantine_name(run_id, name)
        places[name] = f"{kept!r} has it: {first}`{command}` moves it back"
    return places


def _find_kept_elsewhere(
    names: Iterable[str], gone: Set[str], storage_options: Mapping[str, str]
) -> dict[str, str]:
    """Return how files of other tables can be restored there: a shallow clone has their names."""
    owners, unknown = find_owners(names, storage_options)
    places: dict[str, str] = {}
    for owner in owners:
        own_gone = {name for name, path in owner.names.items() if path in gone}
        try:
            kept = _find_kept(owner.store, list(owner.names), own_gone)
            places |= {owner.names[name]: place for name, place in kept.items()}
        except DeltactlError as error:
            unknown |= dict.fromkeys(owner.names.values(), error.message)
    reason = "it is not known whether its table can restore it"
    return places | {path: f"{reason}: {why}" for path, why in unknown.items()}
