"""What lies in a directory that is to become a table: data, what is left out, what forbids it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from deltactl.errors import SafetyError, UnsupportedFeatureError
from deltactl.log.absence import find_table_above
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.store import Store

PARQUET_ENDINGS: Final = (".parquet", ".parq", ".pq")

HIDDEN: Final = "hidden: a name on its path begins with '_' or '.'"
NOT_PARQUET: Final = "not Parquet, by its name"
NOT_PARQUET_INSIDE: Final = "not Parquet, by its content"
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
        SafetyError: another table lies inside, or something else than its folders rules the data.
        UnsupportedFeatureError: it is an Iceberg or Hudi table.
        StorageError: the directory cannot be listed.
    """
    names = sorted(name for batch in store.walk() for name in batch)
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
    return DirectoryListing(tuple(candidates), tuple(left_out))


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
