"""List a directory to convert: its data files, skipped files, and obstacles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from deltactl.errors import ConversionError, SafetyError, UnsupportedFeatureError
from deltactl.log.table_probe import PROGRESS_FILE, find_inner_table, is_from_a_log, is_in_log
from deltactl.protocol.vacuum_names import CHANGE_DATA_DIR
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import OWN_DIR, decode_address
from deltactl.storage.open import open_store
from deltactl.storage.store import Store

PARQUET_ENDINGS: Final = (".parquet", ".parq", ".pq")

HIDDEN: Final = "hidden: a name on its path begins with '_' or '.'"
NOT_PARQUET: Final = "not Parquet, by its name"
NOT_PARQUET_INSIDE: Final = "not Parquet, by its content"
LINKED: Final = "a link to a file that is listed by its own name"
NOT_FOLLOWED: Final = "a link to a directory, or to nothing: it is not followed"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that is not added to the table, and the reason."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """Decoded names below the root, sorted.

    ``candidates`` must be opened: names of Parquet files, and names without an extension, which
    Hive and Athena give to data files.
    """

    candidates: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def has_parquet_name(name: str) -> bool:
    """Return whether a file name has the extension of Parquet."""
    return name.lower().endswith(PARQUET_ENDINGS)


def list_directory(store: Store) -> DirectoryListing:
    """List the files below the root.

    Raises:
        ConversionError: there are no files, or objects that no name can address.
        SafetyError: another table is inside, other metadata determines the live files or rows,
            or two links lead to one file.
        UnsupportedFeatureError: it is an Iceberg or Hudi table.
        StorageError: the directory cannot be listed.
    """
    names, links, others, unaddressable = _walk(store)
    unaddressable = [name for name in unaddressable if not _is_hidden(name)]
    if unaddressable:
        key = f"{store.uri}/{unaddressable[0]}"
        some = f"those below {key}" if key.endswith("/") else key
        raise ConversionError(
            f"no Delta table can name some of the objects, such as {some}: a part of the key is "
            "empty, '.' or '..'",
            hint="Copy these objects to other keys, and delete them here. Then rerun.",
        )
    if not names:
        raise _nothing_there(store, others)
    _ensure_only_files(names, store.uri)
    candidates: list[str] = []
    left_out = [LeftOut(name, NOT_FOLLOWED) for name in others]
    for name in names:
        last = name.rpartition("/")[2]
        if is_in_log(name):
            continue
        if _is_hidden(name):
            left_out.append(LeftOut(name, HIDDEN))
        elif has_parquet_name(last) or "." not in last:
            candidates.append(name)
        else:
            left_out.append(LeftOut(name, NOT_PARQUET))
    if linked := [name for name in candidates if name in links]:
        twins = _find_twins(store, candidates, linked)
        left_out += [LeftOut(name, LINKED) for name in twins]
        candidates = [name for name in candidates if name not in twins]
    return DirectoryListing(tuple(candidates), tuple(left_out))


def _nothing_there(store: Store, links: Sequence[str]) -> ConversionError:
    if links:
        return ConversionError(
            f"no Parquet files at {store.uri}: it has only links, such as {links[0]!r}, to "
            "directories or to nothing, which are not followed",
            hint="Give the directory that a link leads to, or move the files here.",
        )
    if store.stat_many([decode_address(store.uri)]) != [None]:
        return ConversionError(
            f"{store.uri} is a file, not a directory of Parquet files",
            hint="Give the directory that contains it.",
        )
    return ConversionError(
        f"no Parquet files at {store.uri}: the directory is empty or missing",
        hint="Check the path.",
    )


def _walk(store: Store) -> tuple[list[str], set[str], list[str], list[str]]:
    """Return the sorted names of files, which are links, the links to no file, and other keys."""
    names: list[str] = []
    links: list[str] = []
    unaddressable: list[str] = []
    for part in store.walk_tree(lambda directory: True):
        names += part.files
        links += part.links
        unaddressable += part.unaddressable
    found = store.stat_many(links) if links else []
    linked = {info.name for info in found if info is not None}
    return sorted([*names, *linked]), linked, sorted({*links} - linked), sorted(unaddressable)


def _find_twins(store: Store, candidates: Iterable[str], links: Iterable[str]) -> set[str]:
    """Return links to files that are candidates themselves: with both, rows would be duplicated."""
    # A store does not resolve links that leave its root; a store of the whole disk does.
    root = uri_to_path(store.uri).rstrip("/")
    targets = open_store("/").real_names([f"{root}/{name}" for name in links])
    own = {f"{root}/{name}"[1:] for name in candidates}
    first: dict[str, str] = {}
    twins: set[str] = set()
    for name, target in zip(links, targets, strict=True):
        if target in own:
            twins.add(name)
        elif target is not None and (other := first.setdefault(target, name)) != name:
            raise SafetyError(
                f"{store.uri} has two links to one file: {other!r} and {name!r} both lead to "
                f"'/{target}', whose rows would be duplicated",
                hint="Remove one of the links, or hide it: change its name so that it "
                "begins with '_'.",
            )
    return twins


def _is_hidden(name: str) -> bool:
    *directories, last = (part for part in name.split("/") if part not in (".", ".."))
    return any(map(_is_hidden_directory, directories)) or last[:1] in ("_", ".")


def _is_hidden_directory(part: str) -> bool:
    # `_p=1` is a partition of a column named `_p`.
    return part[:1] in ("_", ".") and "=" not in part


# A conversion writes none of these.
_NOTES_OF_TABLES: Final = ("clones/", "quarantine/", "runs/", "vacuum/")


def _shows_a_table(name: str) -> bool:
    """Return whether only a Delta table has such a file: notes, a moved log, or changed rows."""
    first, _, rest = name.partition("/")
    is_note = first == OWN_DIR and rest.startswith(_NOTES_OF_TABLES)
    return is_note or first == CHANGE_DATA_DIR or is_from_a_log(name)


def _ensure_only_files(names: Iterable[str], where: str) -> None:
    for name in names:
        first, _, rest = name.partition("/")
        if (inner := find_inner_table(name)) is not None:
            raise SafetyError(
                f"{where} contains a Delta table in {inner!r}: a table cannot be inside another",
                hint="Convert the other directories one by one, or move the table elsewhere.",
            )
        if first == "metadata" and rest.endswith((".metadata.json", "version-hint.text")):
            raise UnsupportedFeatureError(
                f"{where} is an Iceberg table: {name!r} describes its files",
                hint="Use a tool that converts Iceberg tables: only Iceberg knows which files and "
                "rows are live.",
            )
        if first == ".hoodie":
            raise UnsupportedFeatureError(
                f"{where} is a Hudi table: {name!r} describes its files",
                hint="Use a tool that converts Hudi tables: only Hudi knows which files are live.",
            )
        directory, _, last = name.rpartition("/")
        if name == PROGRESS_FILE:
            raise SafetyError(
                f"{where} is an unfinished deep clone, as {name!r} shows: files are missing",
                hint="Rerun the `deltactl clone` that was to create a table here. Or, to convert "
                f"only the files that were copied, delete {name!r} and rerun.",
            )
        if _shows_a_table(name):
            moved = first if first in (OWN_DIR, CHANGE_DATA_DIR) else directory or name
            raise SafetyError(
                f"{where} has no log, but {name!r} shows that it was a Delta table. Only the log "
                "knows which files and rows are live: deleted rows would come back",
                hint="Restore _delta_log from a backup. Or, if deleted rows may be in the new "
                f"table, move {moved!r} elsewhere and rerun.",
            )
        if last.startswith("deletion_vector_") and last.endswith(".bin"):
            raise SafetyError(
                f"{where} has no log, but contains a deletion vector: {name!r}. Only the log knows "
                "which rows are deleted",
                hint="Restore the log of the table from a backup. Or, if deleted rows may be in "
                "the new table, move the deletion_vector files elsewhere and rerun.",
            )
        if first == "_spark_metadata":
            raise SafetyError(
                f"{where} was written by a Spark stream: {first!r} lists the valid files",
                hint="Copy the data with Spark to another directory, and convert the copy. Or, if "
                "every data file is valid, delete _spark_metadata. A file that it does not list "
                "may contain duplicate rows.",
            )
