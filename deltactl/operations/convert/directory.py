"""What lies in a directory that is to become a table: data, what is left out, what forbids it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from deltactl.errors import ConversionError, SafetyError, UnsupportedFeatureError
from deltactl.log.not_a_table import find_table_above
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.open import open_store
from deltactl.storage.store import Store

PARQUET_ENDINGS: Final = (".parquet", ".parq", ".pq")

HIDDEN: Final = "hidden: a name on its path begins with '_' or '.'"
NOT_PARQUET: Final = "not Parquet, by its name"
NOT_PARQUET_INSIDE: Final = "not Parquet, by its content"
LINKED: Final = "a link to a file that is listed by its own name"
FROM_BEFORE: Final = "older than the last listing, and in no action of the log"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that does not become part of the table, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """Decoded names below the root, sorted.

    ``candidates`` are to be opened: names of Parquet files, and names without an ending, which
    Hive and Athena give to data.
    """

    candidates: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def has_parquet_name(name: str) -> bool:
    """Whether a file says by its name that it is Parquet."""
    return name.lower().endswith(PARQUET_ENDINGS)


def list_directory(store: Store) -> DirectoryListing:
    """Sort the files below the root.

    Raises:
        ConversionError: there is nothing.
        SafetyError: another table lies inside, something else than its folders rules the data, or
            two links lead to one file.
        UnsupportedFeatureError: it is an Iceberg or Hudi table.
        StorageError: the directory cannot be listed.
    """
    names, links = _walk(store)
    if not names:
        raise _nothing_there(store)
    _ensure_only_files(names, store.uri)
    candidates: list[str] = []
    left_out: list[LeftOut] = []
    hidden_folders: dict[str, bool] = {}
    for name in names:
        folder, _, last = name.rpartition("/")
        if folder == LOG_DIR or name.startswith(f"{LOG_DIR}/"):
            continue
        if (is_hidden := hidden_folders.get(folder)) is None:
            is_hidden = hidden_folders[folder] = any(map(_is_hidden_folder, folder.split("/")))
        if is_hidden or last[:1] in ("_", "."):
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


def _nothing_there(store: Store) -> ConversionError:
    if store.stat_many([unquote(store.uri)]) != [None]:
        return ConversionError(
            f"{store.uri} is a file, not a directory of Parquet files",
            hint="Give the directory that holds it.",
        )
    return ConversionError(
        f"no Parquet files at {store.uri}: there is nothing there", hint="Check the path."
    )


def _walk(store: Store) -> tuple[list[str], set[str]]:
    """Names of all files, sorted, and which of them are links; linked folders are not entered."""
    names: list[str] = []
    links: list[str] = []
    for part in store.walk_tree(lambda folder: True):
        names += part.files
        links += part.links
    found = store.stat_many(links) if links else []
    linked = {info.name for info in found if info is not None}
    return sorted([*names, *linked]), linked


def _find_twins(store: Store, candidates: Iterable[str], links: Iterable[str]) -> set[str]:
    """The links to files that are candidates by their own name: with both, rows would be doubled.

    Raises:
        SafetyError: two links lead to one file that is no candidate; which one counts is not known.
    """
    # Where links lead to outside of its root a store does not tell; that of the whole disk does.
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
                f"{store.uri} holds two links to one file: {other!r} and {name!r} both lead to "
                f"'/{target}', whose rows would count twice",
                hint="Remove one of the links, or hide it (a leading '_').",
            )
    return twins


def _is_hidden_folder(part: str) -> bool:
    # `_p=1` is a partition of a column named `_p`.
    return part[:1] in ("_", ".") and "=" not in part


def _ensure_only_files(names: Iterable[str], where: str) -> None:
    for name in names:
        first, _, rest = name.partition("/")
        if f"/{LOG_DIR}/" in name:
            inner = name.partition(f"/{LOG_DIR}/")[0]
            raise SafetyError(
                f"{where} holds a Delta table in {inner!r}: a table cannot lie inside another",
                hint="Convert the folders beside it one by one, or move it elsewhere.",
            )
        if first == "metadata" and rest.endswith((".metadata.json", "version-hint.text")):
            raise UnsupportedFeatureError(
                f"{where} is an Iceberg table: {name!r} describes its files",
                hint="Which files are live, and deleted rows, are known to Iceberg alone; use a "
                "tool that converts Iceberg tables.",
            )
        if first == ".hoodie":
            raise UnsupportedFeatureError(
                f"{where} is a Hudi table: {name!r} describes its files",
                hint="Which files are live is known to Hudi alone.",
            )
        if first == "_spark_metadata":
            raise SafetyError(
                f"{where} was written by a stream of Spark: {name!r} tells which files count",
                hint="Files that are not named there are leftovers and would double rows. Copy the "
                "data with Spark, or remove _spark_metadata once every other file is to count.",
            )


def ensure_no_table_above(store: Store) -> None:
    """Refuse a directory inside a Delta table, whose files may be that table's own.

    Raises:
        SafetyError: naming the table.
    """
    above = find_table_above(store, levels=None)
    if above is not None:
        raise SafetyError(
            f"{store.uri} lies inside the Delta table {above}: a table cannot lie inside another",
            hint="Its files may already belong to that table.",
        )
