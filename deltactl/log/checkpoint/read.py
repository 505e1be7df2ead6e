"""Read checkpoints: classic, multi-part and V2, with their sidecars.

Source: PROTOCOL.md, "Checkpoints", "V2 Spec", "Sidecar Files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import (
    MALFORMED,
    CorruptLogError,
    MissingLogFileError,
    ObjectNotFoundError,
    first_line,
)
from deltactl.log.checkpoint.single_actions import (
    count_nulls,
    ensure_no_shared_rows,
    ensure_single_actions,
    leaf_paths,
)
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.columns import NON_FILE_ACTIONS, find_shared_rows
from deltactl.log.commits.contents import CommitBytes, find_actions
from deltactl.log.commits.file_actions import adds_from_struct, removes_from_struct
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.commits.parser import CommitParser
from deltactl.protocol.actions import Metadata, parse_sidecar
from deltactl.protocol.arrow_schemas import ADD_SCHEMA, JSON_NAMES, REMOVE_SCHEMA, replace_column
from deltactl.protocol.names import LOG_DIR, SIDECAR_DIR
from deltactl.protocol.paths import decode_path, is_absolute
from deltactl.protocol.stats_decoding import zone_times
from deltactl.protocol.stats_encoding import encode_stats_column
from deltactl.storage.store import Store

if TYPE_CHECKING:  # only a table with a checkpoint needs the Parquet reader
    import pyarrow.parquet as pq

_BATCH_ROWS = 1 << 15
_LEAST_BATCH_ROWS = 256
_BATCH_BYTES = 64 << 20
_BUFFER_BYTES = 4 << 20
_STREAMED_BYTES = 32 << 20
# How many rows a byte can have at most: files have different names, so a compressed row needs at
# least a bit, and there are few other actions.
_MOST_ROWS_OF_A_BYTE = 8


@dataclass(slots=True)
class CheckpointHead:
    """The non-file actions of a checkpoint, and the location of its file actions.

    ``sidecar_sizes``: the sizes of its sidecars in bytes, as the checkpoint gives them.
    ``is_mixed``: not only the sidecars have file actions, but the parts too.
    """

    version: int
    parts: tuple[str, ...]
    non_file_actions: NonFileActions = field(default_factory=NonFileActions)
    sidecars: tuple[str, ...] = ()
    sidecar_sizes: tuple[int, ...] = ()
    is_mixed: bool = False


@contextmanager
def _named(name: str, version: int) -> Iterator[None]:
    """Convert errors of Arrow and of the store to errors of deltactl with the file name."""
    try:
        yield
    except ObjectNotFoundError as error:
        raise MissingLogFileError(
            f"checkpoint file {name} of version {version} is missing",
            hint="Rerun if a log cleanup ran just now. Otherwise run `deltactl checkpoint TABLE "
            "--repair`: an older checkpoint or the JSON commits may be enough to rebuild the "
            "checkpoint.",
        ) from error
    except (pa.ArrowException, OSError, *MALFORMED) as error:
        detail = first_line(error) or type(error).__name__
        raise CorruptLogError(
            f"checkpoint file {name} of version {version} cannot be read: {detail}",
            hint="Run `deltactl checkpoint TABLE --repair`: an older checkpoint or the JSON "
            "commits may be enough to rebuild the checkpoint.",
        ) from error


def read_head(
    store: Store, checkpoint: Checkpoint, *, checks_sidecars: bool = False
) -> CheckpointHead:
    """Read the non-file actions of a checkpoint; :func:`read_file_actions` reads the others.

    Raises:
        CorruptLogError: a part cannot be read; with ``checks_sidecars``, or a sidecar is missing or
            has another size.
    """
    head = CheckpointHead(checkpoint.version, checkpoint.names)
    nodes: list[dict[str, Any]] = []
    for name in checkpoint.names:
        if checkpoint.format == "json":
            nodes += _read_json_part(store, head, name)
        else:
            nodes += _read_parquet_part(store, head, name)
    with _named(checkpoint.names[0], checkpoint.version):
        parsed = [parse_sidecar(node) for node in nodes]
        head.sidecars = tuple(_sidecar_name(path) for path, _ in parsed)
    head.sidecar_sizes = tuple(size_bytes for _, size_bytes in parsed)
    wrong = find_wrong_sidecars(store, head) if checks_sidecars and parsed else {}
    for name, problem in wrong.items():
        with _named(name, head.version):
            raise ObjectNotFoundError(name) if problem is None else ValueError(f"it {problem}")
    return head


@dataclass(frozen=True, slots=True)
class RowGroupRange:
    """Some of the file actions of a checkpoint: a file, or some of its row groups."""

    name: str
    row_groups: tuple[int, ...] | None = None


def list_action_files(head: CheckpointHead) -> tuple[RowGroupRange, ...]:
    """Return the files that have the checkpoint's file actions.

    If there are sidecars, the top-level file should contain no file actions (PROTOCOL.md, "V2
    Spec"). If it contains some, readers use both. So deltactl uses both too: otherwise vacuum would
    treat the files in the top-level file as orphaned.

    A sidecar that the checkpoint lists twice is one range.
    """
    parts = head.parts if head.is_mixed or not head.sidecars else ()
    return tuple(map(RowGroupRange, dict.fromkeys((*head.sidecars, *parts))))


def row_group_rows(store: Store, head: CheckpointHead, name: str) -> list[int]:
    """Return the number of rows of each row group of a Parquet file.

    Raises:
        CorruptLogError: it cannot be read.
    """
    with _named(name, head.version), store.open_input(name) as source:
        metadata = _open_parquet(source).metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def ensure_one_action_a_row(store: Store, head: CheckpointHead) -> None:
    """Raise an error for a row with several actions. All rows of the Parquet files are read.

    Raises:
        CorruptLogError: there is such a row; the message has the file and the row.
    """
    for name in (*head.parts, *head.sidecars):
        # Lines of JSON are checked whenever they are parsed.
        if not name.endswith(".json"):
            with _named(name, head.version), store.open_input(name) as source:
                ensure_no_shared_rows(_open_parquet(source))


def read_file_actions(
    store: Store,
    head: CheckpointHead,
    action: str,
    columns: Sequence[str],
    ranges: Sequence[RowGroupRange] | None = None,
) -> Iterator[pa.Table]:
    """Yield batches of ``add`` or ``remove`` actions, from all or some files.

    The columns are those of :data:`ADD_SCHEMA` or :data:`REMOVE_SCHEMA`.
    """
    for part in list_action_files(head) if ranges is None else ranges:
        yield from _read_actions(store, head, part, action, columns)


def read_metadata_nodes(store: Store, checkpoint: Checkpoint) -> Iterator[dict[str, Any]]:
    """Yield the metaData objects of a checkpoint as they are.

    Raises:
        CorruptLogError: a part cannot be read.
    """
    for name in checkpoint.names:
        with _named(name, checkpoint.version):
            if checkpoint.format == "json":
                yield from find_actions(name, store.read(name), "metaData")
                continue
            with store.open_input(name) as source:
                parquet = _open_parquet(source)
                columns = {"metaData"} & set(parquet.schema_arrow.names)
                for batch in parquet.iter_batches(_BATCH_ROWS, columns=list(columns)):
                    for column in batch.columns:
                        # A key may occur twice in a map: the last value counts, as in JSON.
                        yield from column.drop_null().to_pylist(maps_as_pydicts="lossy")


def _read_json_part(store: Store, head: CheckpointHead, name: str) -> list[dict[str, Any]]:
    """Add the non-file actions of a part; return its ``sidecar`` objects."""
    sidecars: list[dict[str, Any]] = []
    for parsed in CommitParser().parse([_read_json(store, name, head.version)]):
        head.non_file_actions.update(parsed.non_file_actions)
        head.is_mixed |= bool(parsed.adds.num_rows or parsed.removes.num_rows)
        sidecars += parsed.sidecars
    return sidecars


def _read_parquet_part(store: Store, head: CheckpointHead, name: str) -> list[dict[str, Any]]:
    """Add the non-file actions of a part; return its ``sidecar`` objects."""
    sidecars: list[dict[str, Any]] = []
    with _named(name, head.version), store.open_input(name) as source:
        parquet = _open_parquet(source)
        present = set(parquet.schema_arrow.names)
        columns = [column for column in NON_FILE_ACTIONS if column in present]
        num_non_file = 0
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=columns):
            # This reads the actions again and raises an error with the row and all of its actions.
            if find_shared_rows(batch.columns).size:
                ensure_no_shared_rows(parquet)
            for column in columns:
                nodes = batch.column(column).drop_null().to_pylist(maps_as_pydicts="lossy")
                num_non_file += len(nodes)
                sidecars += nodes if column == "sidecar" else ()
                for node in nodes:
                    head.non_file_actions.apply({column: node})
        ensure_single_actions(parquet, num_non_file)
        # Without sidecars, the file is read for file actions in any case.
        head.is_mixed |= bool(sidecars) and _holds_files(parquet)
    return sidecars


def _holds_files(parquet: pq.ParquetFile) -> bool:
    """Return whether the top-level file of a V2 checkpoint contains adds or removes."""
    names = set(parquet.schema_arrow.names)
    leaves = [f"{action}.path" for action in ("add", "remove") if action in names]
    batches = parquet.iter_batches(_BATCH_ROWS, columns=leaves) if leaves else ()
    return any(column.null_count < len(column) for batch in batches for column in batch.columns)


def _sidecar_name(path: str) -> str:
    # Like the path of a data file, it is URI-encoded (PROTOCOL.md, "Sidecar File Information").
    decoded = decode_path(path)
    return decoded if is_absolute(decoded) else f"{LOG_DIR}/{SIDECAR_DIR}/{decoded}"


def _read_actions(
    store: Store, head: CheckpointHead, part: RowGroupRange, action: str, columns: Sequence[str]
) -> Iterator[pa.Table]:
    version, name = head.version, part.name
    if name.endswith(".json"):
        keys = head.non_file_actions.partition_keys
        for parsed in CommitParser(keys).parse([_read_json(store, name, version)]):
            table = parsed.adds if action == "add" else parsed.removes
            yield table.select(columns)
        return
    with _named(name, version), store.open_input(name) as source:
        parquet = _open_parquet(source)
        if name in head.sidecars:
            _ensure_stated_size(head, name, source.size())
            ensure_single_actions(parquet, 0)  # `read_head` has checked the other files
        if action not in parquet.schema_arrow.names:
            return
        leaves = _choose_leaves(parquet, action, columns)
        batches = parquet.iter_batches(
            _choose_batch_rows(parquet, leaves), row_groups=part.row_groups, columns=leaves
        )
        for batch in batches:
            structs = batch.column(action)
            if structs.null_count == len(structs):
                continue
            structs.validate(full=True)  # Parquet does not check that strings are UTF-8
            # To drop nulls copies the data, even if there are no nulls.
            structs = structs.drop_null() if structs.null_count else structs
            yield _to_table(structs, action, columns, head.non_file_actions.metadata)


def _ensure_stated_size(head: CheckpointHead, name: str, size_bytes: int) -> None:
    """Raise an error for a sidecar of another size than the checkpoint says."""
    stated = head.sidecar_sizes[head.sidecars.index(name)]
    if stated != size_bytes:
        raise ValueError(f"it {_describe_wrong_size(stated, size_bytes)}")


def find_wrong_sidecars(store: Store, head: CheckpointHead) -> dict[str, str | None]:
    """Return the problem of each sidecar of another size, and ``None`` for each missing one.

    Raises:
        StorageError: the store failed.
    """
    found = zip(head.sidecars, store.stat_many(head.sidecars), head.sidecar_sizes, strict=True)
    return {
        name: None if info is None else _describe_wrong_size(size, info.size_bytes)
        for name, info, size in found
        if info is None or info.size_bytes != size
    }


def _describe_wrong_size(stated: int, size_bytes: int) -> str:
    """Describe a sidecar of another size than in its checkpoint: it may be another file.

    Some readers use this size to find the footer, or the row groups to read.
    """
    return f"has {size_bytes} bytes, but the checkpoint says that it has {stated}"


def _read_json(store: Store, name: str, version: int) -> CommitBytes:
    with _named(name, version):
        return CommitBytes(name, store.read(name))


def _open_parquet(source: pa.NativeFile) -> pq.ParquetFile:
    """Open a checkpoint for streaming, so that Arrow does not keep all data in memory to the end.

    A column of one row group may have hundreds of megabytes, so it is read in pieces. A small file
    is read at once, because the buffer of a piece has the size that the page header gives, which
    can be wrong.
    """
    import pyarrow.parquet as pq

    from deltactl.parquet.broken_footers import ensure_valid_columns

    size = source.size()
    buffer_bytes = _BUFFER_BYTES if size > _STREAMED_BYTES else 0
    parquet = pq.ParquetFile(
        source,
        pre_buffer=False,
        buffer_size=buffer_bytes,
        coerce_int96_timestamp_unit="us",  # as Spark; nanoseconds end in the year 2262
    )
    # Otherwise, to look for that many rows could take forever.
    num_rows = parquet.metadata.num_rows
    if num_rows > _MOST_ROWS_OF_A_BYTE * size:
        raise ValueError(
            f"its footer says {num_rows} rows, which is too many for a file of {size} bytes"
        )
    ensure_valid_columns(parquet.metadata, size)
    return parquet


def _choose_batch_rows(parquet: pq.ParquetFile, leaves: Sequence[str]) -> int:
    """Return the row count of a batch: fewer if statistics of many columns make rows large."""
    below = tuple(f"{leaf}." for leaf in leaves)
    indices = [
        index
        for index, path in enumerate(leaf_paths(parquet.schema))
        if path.startswith(below) or path in leaves
    ]
    metadata = parquet.metadata
    size: int = sum(
        metadata.row_group(group).column(index).total_uncompressed_size
        for group in range(metadata.num_row_groups)
        for index in indices
    )
    fitting: int = _BATCH_BYTES * metadata.num_rows // max(size, 1)
    return max(_LEAST_BATCH_ROWS, min(_BATCH_ROWS, fitting))


def _choose_leaves(parquet: pq.ParquetFile, action: str, columns: Sequence[str]) -> list[str]:
    """Return prefixes of the Parquet columns to read. Parsed statistics are read only if needed."""
    struct = parquet.schema_arrow.field(action).type
    members = {struct.field(i).name for i in range(struct.num_fields)}
    wanted = {JSON_NAMES["path"]}
    wanted |= {JSON_NAMES[c] for c in columns if c in JSON_NAMES}
    if (
        "stats" in columns
        and "stats_parsed" in members
        and ("stats" not in members or _may_be_null(parquet, f"{action}.stats", f"{action}.path"))
    ):
        wanted.add("stats_parsed")
    return [f"{action}.{member}" for member in sorted(wanted & members)]


def _may_be_null(parquet: pq.ParquetFile, path: str, present: str) -> bool:
    """Return whether a leaf has more nulls than the leaf ``present``, as the footer says."""
    nulls, absent = count_nulls(parquet, path), count_nulls(parquet, present)
    # Each action has a path. So if `path` has as many nulls, no action lacks the member.
    return nulls is None or absent is None or nulls > absent


def _to_table(
    structs: pa.StructArray, action: str, columns: Sequence[str], metadata: Metadata | None
) -> pa.Table:
    column = pa.chunked_array([structs])
    members = {structs.type.field(i).name for i in range(structs.type.num_fields)}
    convert = adds_from_struct if action == "add" else removes_from_struct
    table = convert(column)
    if "stats_parsed" in members:
        parsed = structs.field("stats_parsed")
        rendered = encode_stats_column(parsed if metadata is None else zone_times(parsed, metadata))
        # As in Delta on Spark: the text of the writer, and the struct only where there is no text.
        stats = pc.coalesce(table["stats"], pa.chunked_array([rendered]))
        table = replace_column(table, "stats", stats)
    return table.select(columns)


FILE_COLUMNS = tuple(ADD_SCHEMA.names)
TOMBSTONE_COLUMNS = tuple(REMOVE_SCHEMA.names)
