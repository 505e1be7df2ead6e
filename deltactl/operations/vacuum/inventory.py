"""Read a listing from a file: an inventory of an object store, or a file of ``--dump-listing``.

Supported formats, recognised by their column names:

- the format of ``--dump-listing`` and of Delta on Spark: ``path`` (with scheme), ``length``,
  ``isDir``, ``modificationTime`` (ms);
- Amazon S3 Inventory: its ``manifest.json``, with data files in CSV, Parquet or ORC;
- Google Cloud Storage inventory reports: the manifest, or a shard in CSV or Parquet.

A vacuum uses only the names: facts of files to delete are read again from the store.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from deltactl.errors import DeltactlError, ObjectNotFoundError, UsageError, first_line
from deltactl.operations.output_files import ensure_replaceable
from deltactl.operations.stored_files import Listing, stat_files
from deltactl.option_names import option
from deltactl.protocol.path_columns import absolute_mask, canonical_paths
from deltactl.storage.local.uris import uri_to_path
from deltactl.storage.names import decode_address, is_local_uri, refuse_chain
from deltactl.storage.open import open_store
from deltactl.storage.store import Store

# Keys such as `a//b`, `a/./b`: for a store, these are names of other objects.
_UNADDRESSABLE = r"(?:^|/)\.{0,2}/|/\.{1,2}$"
_INVENTORY = pa.schema(
    [
        ("path", pa.string()),
        ("length", pa.int64()),
        ("isDir", pa.bool_()),
        ("modificationTime", pa.int64()),
    ]
)
_DUMP_ROWS = 65_536
_PARQUET_MAGIC = b"PAR1"
_LONGEST_HEADER = 1 << 20
# Errors of the format readers, and of manifests with unexpected contents.
_UNREADABLE = (
    *(pa.ArrowException, OSError, EOFError, zlib.error),
    *(ValueError, LookupError, TypeError, RecursionError),
)


def read_inventory(
    store: Store, address: str, storage_options: Mapping[str, str], *, facts: bool = False
) -> Listing:
    """Return the distinct names under the table's root in an inventory, perhaps with facts.

    Raises:
        UsageError: the file is not a supported inventory, or lists nothing under the root, or has
            no facts.
        StorageError: it cannot be read.
    """
    refuse_chain(address)
    place, name = _open_directory(address, storage_options)
    files = [pa.table({"path": pa.array([], pa.string())})]
    rows = 0
    with _as_inventory(address):
        if place.stat_many([name]) == [None]:
            raise UsageError(
                f"{option('inventory')} {address} does not exist",
                hint=f"Give the manifest of an inventory, or a file of {option('dump_listing')}.",
            )
        for table in _read_tables(place, name, address):
            # Strings of Parquet and ORC may be any bytes, and a corrupt file gives invalid columns.
            table.validate(full=True)
            rows += table.num_rows
            chosen = table.filter(pc.invert(table["isDir"]))
            chosen = _with_facts(chosen, address) if facts else chosen.select(["path"])
            files.append(_below_root(store, chosen))
    listed = pa.concat_tables(files[1:] or files)
    is_odd = pc.match_substring_regex(listed["path"], _UNADDRESSABLE)
    unusable = pc.sum(is_odd).as_py() or 0
    listed = listed.filter(pc.invert(is_odd))
    found = pc.unique(listed["path"])
    if not len(found):
        raise UsageError(
            f"{address} lists {rows:,} names, but none of them is a file in {store.uri}",
            hint=f"Give {option('inventory')} the inventory of this table's bucket or directory.",
        )
    if not facts:
        return Listing(pa.chunked_array([found], pa.string()), unusable=unusable)
    if len(found) < listed.num_rows:
        listed = listed.take(pc.index_in(found, value_set=listed["path"]))
    return Listing(listed["path"], unusable=unusable, facts=listed.drop_columns("path"))


def _with_facts(table: pa.Table, address: str) -> pa.Table:
    """Return the names with ``size_bytes`` and ``modified_ms``.

    Raises:
        UsageError: the inventory does not have them.
    """
    lacking = {"size_bytes", "modified_ms"}.difference(table.column_names)
    if lacking:
        raise UsageError(
            f"{address} has no sizes or no modification times",
            hint="Add Size and Last modified to the fields of the inventory, or list the table.",
        )
    sizes = pc.fill_null(table["size_bytes"].cast(pa.int64()), 0)
    times = table["modified_ms"]
    if pa.types.is_string(times.type):
        are_numbers = pc.all(pc.match_substring_regex(times, "^[0-9]+$")).as_py()
        times = times.cast(pa.int64() if are_numbers else pa.timestamp("ms", "UTC"))
    if pa.types.is_timestamp(times.type):
        times = times.cast(pa.timestamp("ms", times.type.tz), safe=False)
    times = pc.fill_null(times.cast(pa.int64()), 0)
    return pa.table({"path": table["path"], "size_bytes": sizes, "modified_ms": times})


@contextmanager
def _as_inventory(address: str) -> Iterator[None]:
    """Convert errors of the format readers to a ``UsageError`` with the file name."""
    try:
        yield
    except DeltactlError:
        raise
    except _UNREADABLE as error:
        raise UsageError(
            f"{address} cannot be read as an inventory: {type(error).__name__}: {first_line(error)}"
        ) from error


def _below_root(store: Store, files: pa.Table) -> pa.Table:
    """Return names under the root for absolute addresses; drop the files of other addresses.

    Local addresses that do not start with the root are resolved one by one, because of links.
    """
    scheme = store.uri.partition(":")[0]
    root = canonical_paths(pa.chunked_array([[decode_address(store.uri)]]), scheme)[0].as_py()
    canonical = canonical_paths(files["path"], scheme)
    below = pc.starts_with(canonical, f"{root}/")
    names = pc.utf8_slice_codeunits(canonical.filter(below), len(root) + 1)
    found = [files.filter(below).set_column(0, "path", names)]
    is_local = pc.or_(pc.starts_with(canonical, "/"), pc.invert(absolute_mask(canonical)))
    others = files.filter(pc.and_not(is_local, below))
    if scheme == "file" and others.num_rows:
        links = store.real_names(others["path"].to_pylist())
        known = others.set_column(0, "path", pa.array([it or None for it in links], pa.string()))
        found.append(known.filter(pc.is_valid(known["path"])))
    return pa.concat_tables(found)


def _read_tables(place: Store, name: str, address: str) -> Iterator[pa.Table]:
    """Yield the rows of an inventory as ``path`` and ``isDir``."""
    data = place.read(name)
    if name.endswith(".json") and not data.startswith(_PARQUET_MAGIC):
        yield from _read_manifest(place, json.loads(data), address)
        return
    yield _normalise(_read_rows(data, name, None), address)


def _read_manifest(place: Store, manifest: Any, address: str) -> Iterator[pa.Table]:
    if not isinstance(manifest, dict):
        raise UsageError(f"{address} is not the manifest of an inventory")
    schema = manifest.get("fileSchema")
    if isinstance(schema, str) and isinstance(manifest.get("files"), list):
        columns = None
        if str(manifest.get("fileFormat", "")).upper() == "CSV":
            columns = [part.strip() for part in schema.split(",")]
        for file in manifest["files"]:
            key = str(file["key"])
            yield _normalise(_read_rows(_find(place, key), key, columns), address)
    elif isinstance(manifest.get("report_shards_file_names"), list):
        for shard in manifest["report_shards_file_names"]:
            yield _normalise(_read_rows(_find(place, str(shard)), str(shard), None), address)
    else:
        raise UsageError(
            f"{address} is not the manifest of a supported inventory",
            hint=f"Give {option('inventory')} a manifest of Amazon S3 Inventory or of Google "
            "Cloud Storage.",
        )


def _find(place: Store, key: str) -> bytes:
    """Read a data file of a manifest: keys start at the bucket, some levels above the manifest."""
    scheme, separator, path = decode_address(place.uri).partition("://")
    while True:
        try:
            return place.read(f"{scheme}{separator}{path}/{key}")
        except ObjectNotFoundError:
            if not path.strip("/"):
                raise
        path = path.rpartition("/")[0]


def _read_rows(data: bytes, name: str, columns: Sequence[str] | None) -> pa.Table:
    lowered = name.lower()
    # A file of ``--dump-listing`` is Parquet whatever its name.
    if lowered.endswith(".parquet") or data.startswith(_PARQUET_MAGIC):
        return pq.read_table(pa.BufferReader(data))
    if lowered.endswith(".orc"):
        from pyarrow import orc

        return orc.read_table(pa.BufferReader(data))
    if lowered.endswith((".csv", ".csv.gz")):
        source: Any = pa.BufferReader(data)
        if lowered.endswith(".gz"):
            source = pa.CompressedInputStream(source, "gzip")
        text = pa.string()
        names = list(columns) if columns else _header(data, lowered)
        return pcsv.read_csv(
            source,
            read_options=pcsv.ReadOptions(column_names=list(columns) if columns else None),
            convert_options=pcsv.ConvertOptions(column_types=dict.fromkeys(names, text)),
        )
    raise UsageError(
        f"{name!r} is not an inventory: its name does not end in .parquet, .orc, .csv or .json"
    )


def _header(data: bytes, lowered: str) -> list[str]:
    if lowered.endswith(".gz"):
        import gzip

        data = gzip.GzipFile(fileobj=io.BytesIO(data)).readline(_LONGEST_HEADER)
    line = data.partition(b"\n")[0].decode("utf-8", "replace")
    return [name.strip().strip('"') for name in line.split(",")]


def _normalise(table: pa.Table, address: str) -> pa.Table:
    """Convert any supported inventory to ``path`` (absolute address, decoded) and ``isDir``."""
    by_name = {name.lower().replace("_", ""): name for name in table.column_names}

    def column(*names: str) -> pa.ChunkedArray | None:
        found = next((by_name[name] for name in names if name in by_name), None)
        return None if found is None else table[found]

    facts = {
        "size_bytes": column("length", "size"),
        "modified_ms": column("modificationtime", "lastmodifieddate", "updated"),
    }
    facts = {name: values for name, values in facts.items() if values is not None}
    path, is_dir = column("path"), column("isdir")
    if path is not None and is_dir is not None and "modificationtime" in by_name:
        flags = is_dir if pa.types.is_boolean(is_dir.type) else pc.equal(is_dir, "true")
        return pa.table({"path": path.cast(pa.string()), "isDir": flags, **facts})
    bucket, key, name = column("bucket"), column("key"), column("name")
    if bucket is not None and key is not None:
        keys = key.cast(pa.string())
        if any(field_name == "Key" for field_name in table.column_names):
            # Keys are URI-encoded in CSV, but not in Parquet and ORC.
            keys = pa.chunked_array([pa.array([unquote(text) for text in keys.to_pylist()])])
        paths = pc.binary_join_element_wise("s3://", bucket.cast(pa.string()), "/", keys, "")
        keep = _current_versions(table, column("islatest"), column("isdeletemarker"))
        return _files(paths, facts).filter(keep)
    if bucket is not None and name is not None:
        texts = name.cast(pa.string())
        paths = pc.binary_join_element_wise("gs://", bucket.cast(pa.string()), "/", texts, "")
        return _files(paths, facts)
    raise UsageError(
        f"{address} is not an inventory that deltactl can read: its columns are "
        f"{', '.join(table.column_names)}",
        hint="Give an inventory of S3 or Google Cloud Storage, or one with the columns path, "
        "length, isDir and modificationTime.",
    )


def _current_versions(
    table: pa.Table, latest: pa.ChunkedArray | None, marker: pa.ChunkedArray | None
) -> pa.ChunkedArray:
    keep = pa.chunked_array([pa.repeat(pa.scalar(True), table.num_rows)])
    if latest is not None:
        keep = pc.and_(keep, pc.equal(pc.utf8_lower(latest.cast(pa.string())), "true"))
    if marker is not None:
        keep = pc.and_(keep, pc.not_equal(pc.utf8_lower(marker.cast(pa.string())), "true"))
    return pc.fill_null(keep, False)


def _files(paths: pa.ChunkedArray, facts: Mapping[str, pa.ChunkedArray]) -> pa.Table:
    return pa.table({"path": paths, "isDir": pc.ends_with(paths, "/"), **facts})


def open_dump(address: str, storage_options: Mapping[str, str]) -> tuple[Store, str]:
    """Return the directory and the name of the file for a listing.

    Raises:
        UsageError: it is a directory, or the file would be in a table, or in no directory.
    """
    place, name = _open_directory(address, storage_options)
    path = Path(uri_to_path(place.uri), name) if is_local_uri(place.uri) else None
    if not name or (path is not None and path.is_dir()):
        raise UsageError(
            f"{option('dump_listing')} {address!r} is a directory",
            hint="Give a file in this directory, such as "
            f"{option('dump_listing', address.rstrip('/') + '/listing.parquet')}.",
        )
    ensure_replaceable(option("dump_listing"), address, place)
    return place, name


def _open_directory(address: str, storage_options: Mapping[str, str]) -> tuple[Store, str]:
    directory, _, name = address.rpartition("/")
    directory = directory or ("/" if address.startswith("/") else ".")
    return open_store(directory, storage_options), name


def dump_listing(store: Store, listing: Listing, place: Store, name: str) -> int:
    """Write a listing as Parquet with the columns of Delta on Spark; return the number of files.

    Raises:
        StorageError: it cannot be written.
    """
    sink = io.BytesIO()
    root = decode_address(store.uri)
    if root.startswith("file://"):
        root = f"file:{root[len('file://') :]}"
    total = 0
    with pq.ParquetWriter(sink, _INVENTORY, compression="zstd") as writer:
        for start in range(0, len(listing.files), _DUMP_ROWS):
            facts = stat_files(store, listing.files.slice(start, _DUMP_ROWS))
            total += facts.num_rows
            writer.write_table(_inventory_rows(root, facts))
        directories = pa.array(listing.directories, pa.string())
        times = pa.array([0] * len(directories), pa.int64())
        nothing = pa.table(
            {"path": pa.chunked_array([directories]), "size_bytes": times, "modified_ms": times}
        )
        writer.write_table(_inventory_rows(root, nothing, is_dir=True))
    place.put(name, sink.getvalue())
    return total


def _inventory_rows(root: str, facts: pa.Table, *, is_dir: bool = False) -> pa.Table:
    columns = [
        pc.binary_join_element_wise(root, facts["path"], "/"),
        facts["size_bytes"],
        pa.array([is_dir] * facts.num_rows, pa.bool_()),
        facts["modified_ms"],
    ]
    return pa.table(columns, schema=_INVENTORY)
