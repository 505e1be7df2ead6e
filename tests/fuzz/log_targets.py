"""Files of the log: commits, checkpoints, sidecars, the hint, checksums, names."""

from functools import cache

from deltactl.errors import ignore_warning
from deltactl.log.audit.checksum import find_disagreements, write_checksum
from deltactl.log.checkpoint.read import (
    FILE_COLUMNS,
    TOMBSTONE_COLUMNS,
    CheckpointHead,
    read_file_actions,
    read_head,
)
from deltactl.log.checkpoint_files import Checkpoint
from deltactl.log.commits.contents import CommitBytes, CommitReader, in_commit_timestamp
from deltactl.log.commits.non_file_actions import NonFileActions
from deltactl.log.delta_log import DeltaLog
from deltactl.log.hint import read_hint
from deltactl.log.history.columns import history_row, history_table
from deltactl.log.replay import Tail, live_batches, replay_tail
from deltactl.log.snapshot import Snapshot
from deltactl.log.upkeep.last_vacuum_info import read_last_vacuum_info
from deltactl.protocol.clustering import clustering_columns
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.names import parse_log_name
from deltactl.protocol.partitions import lookup_map
from deltactl.protocol.stats import num_records
from deltactl.protocol.stats_decoding import parsed_stats_type
from tests.fuzz.target import STORE, Target, as_text, stored
from tests.support.stores import MemoryStore
from tests.support.table_builder import LOG, TableBuilder, commit_path
from tests.support.table_samples import build_sample

_WORDS = (
    *("add", "remove", "metaData", "protocol", "txn", "domainMetadata", "commitInfo", "cdc"),
    *("path", "partitionValues", "size", "stats", "tags", "deletionVector", "modificationTime"),
    *("schemaString", "partitionColumns", "configuration", "minReaderVersion", "readerFeatures"),
    *("sidecar", "checkpointMetadata", "storageType", "pathOrInlineDv", "sizeInBytes", "offset"),
    *('{"add":', '{"remove":', "\n", "null", "true", "1e999", "-1", "9223372036854775808"),
    "\\ud800",
)


@cache
def sample(features: str = "deletion-vectors", shape: str = "commits") -> TableBuilder:
    """A small table that this project's own builder writes."""
    store = MemoryStore(f"memory://fuzz-{features}-{shape}")
    return build_sample(store, features=features, layout="partitioned", shape=shape)


def _log_files(ending: str, shape: str, features: str = "deletion-vectors") -> list[bytes]:
    store = sample(features, shape).store
    return [
        store.read(name)
        for batch in store.walk(LOG)
        for name in sorted(batch)
        if name.endswith(ending)
    ]


def _commits() -> list[bytes]:
    found = _log_files(".json", "commits") + _log_files(".json", "commits", "row-tracking")
    return [data for data in found if len(data) < 6000]


# -- what is done with what was read ------------------------------------------------------------


def _use_non_file_actions(found: NonFileActions) -> None:
    clustering_columns(found.live_domains)
    if found.metadata is None or found.protocol is None:
        return
    _ = found.partition_keys, found.metadata.data_schema, found.metadata.column_mapping_mode
    ensure_supported(found.protocol, found.metadata, Operation.READ)
    parsed_stats_type(found.metadata, found.protocol)


def _use_files(tail: Tail, head: CheckpointHead | None = None) -> None:
    for batch in live_batches(STORE, head, tail, FILE_COLUMNS):
        num_records(batch["stats"])
        vector_files(batch["deletion_vector"])
        lookup_map(batch["partition_values"], "p")


# -- targets ------------------------------------------------------------------------------------


def run_commit(data: bytes) -> None:
    """A commit, replayed; an input of odd length as a compacted file."""
    name = f"{1:020d}.{2:020d}.compacted.json" if len(data) % 2 else f"{1:020d}.json"
    tail = replay_tail(CommitReader(STORE), [stored(f"{LOG}/{name}", data)], ("p",))
    _use_non_file_actions(tail.non_file_actions)
    _use_files(tail)


def run_commit_info(data: bytes) -> None:
    """What the history shows of a commit."""
    info = CommitBytes(commit_path(1), data).info
    in_commit_timestamp(info)
    history_table([history_row(1, info, timestamp_ms=0)])


def _run_head(name: str, kind: str, data: bytes) -> None:
    form = "json" if name.endswith(".json") else "parquet"
    head = read_head(STORE, Checkpoint(3, kind, form, (stored(name, data),)))
    _use_non_file_actions(head.non_file_actions)
    if not head.sidecars:
        _use_files(_no_tail(), head)
        for _ in read_file_actions(STORE, head, "remove", TOMBSTONE_COLUMNS):
            pass


def run_checkpoint(data: bytes) -> None:
    """A classic checkpoint: non_file_actions, live files, tombstones."""
    _run_head(f"{LOG}/{3:020d}.checkpoint.parquet", "classic", data)


def run_checkpoint_json(data: bytes) -> None:
    """A V2 checkpoint's top-level file in JSON."""
    _run_head(f"{LOG}/{3:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json", "uuid", data)


@cache
def _no_tail() -> Tail:
    return replay_tail(CommitReader(STORE), [])


def run_sidecar(data: bytes) -> None:
    """A sidecar of a V2 checkpoint."""
    info = stored(f"{LOG}/_sidecars/one.parquet", data)
    sizes = (info.size_bytes,)
    head = CheckpointHead(3, ("top.json",), sidecars=(info.name,), sidecar_sizes=sizes)
    for _ in read_file_actions(STORE, head, "add", FILE_COLUMNS):
        pass
    for _ in read_file_actions(STORE, head, "remove", TOMBSTONE_COLUMNS):
        pass


def run_hint(data: bytes) -> None:
    """``_last_checkpoint``: never an error, at most a warning."""
    stored(f"{LOG}/_last_checkpoint", data)
    read_hint(STORE, ignore_warning)


def run_last_vacuum_info(data: bytes) -> None:
    """``_last_vacuum_info``: never an error."""
    stored(f"{LOG}/_last_vacuum_info", data)
    read_last_vacuum_info(STORE)


@cache
def _snapshot() -> Snapshot:
    return DeltaLog(sample().store, ignore_warning).snapshot()


def run_checksum(data: bytes) -> None:
    """``N.crc`` compared with the version it belongs to."""
    snapshot = _snapshot()
    stored(f"{LOG}/{snapshot.version:020d}.crc", data)
    find_disagreements(STORE, snapshot, snapshot.num_files, snapshot.size_bytes)


def _checksums() -> list[bytes]:
    snapshot = _snapshot()
    name = write_checksum(sample().store, snapshot, snapshot.num_files, snapshot.size_bytes)
    return [sample().store.read(name or f"{LOG}/{snapshot.version:020d}.crc")]


def run_name(data: bytes) -> None:
    """A name found in the log's folder."""
    parse_log_name(as_text(data))


def _names() -> list[bytes]:
    log_names = [
        f"{7:020d}.json",
        f"{7:020d}.crc",
        f"{7:020d}.{9:020d}.compacted.json",
        f"{7:020d}.checkpoint.parquet",
        f"{7:020d}.checkpoint.{1:010d}.{2:010d}.parquet",
        f"{7:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
    ]
    return [name.encode() for name in log_names]


TARGETS = (
    Target("commit", run_commit, _commits, 200_000, "json", _WORDS, 8192, by_arrow=True),
    Target("commit-info", run_commit_info, _commits, 250_000, "json", _WORDS, 8192),
    Target("checkpoint", run_checkpoint, lambda: _log_files("checkpoint.parquet", "classic"),
        100_000, "parquet", max_length=32768, by_arrow=True),
    Target("checkpoint-json", run_checkpoint_json, lambda: _log_files(".json", "v2-json")[-1:],
        100_000, "json", _WORDS, 8192, by_arrow=True),
    Target("sidecar", run_sidecar,
        lambda: [data for data in _log_files(".parquet", "v2-json") if b"sidecar" not in data],
        100_000, "parquet", max_length=32768, by_arrow=True),
    Target("last-checkpoint", run_hint, lambda: _log_files("_last_checkpoint", "cleaned-up"),
        1_000_000, "json", ("version", "size", "checksum", "v2Checkpoint", "1e9999")),
    Target("last-vacuum-info", run_last_vacuum_info,
        lambda: [b'{"latestCommitVersionOutsideOfRetentionWindow":7}'], 500_000, "json"),
    Target("crc", run_checksum, _checksums, 300_000, "json", _WORDS, 8192),
    Target("log-name", run_name, _names, 1_200_000, "text",
        (".json", ".checkpoint.", ".crc", ".compacted", ".parquet", "0" * 20)),
)  # fmt: skip
