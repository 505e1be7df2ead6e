"""Ways to damage the table of ``tests.support.damage``, each with the code of its finding."""

import io
import json
from collections.abc import Callable
from typing import Any, Final

import pyarrow.parquet as pq

from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from tests.support.checkpoints import fail
from tests.support.damage import edit_action, edit_commit, edit_parquet, edit_stats, flip, only_file
from tests.support.table_builder import LOG, Column, TableBuilder, _pad, commit_path, encode_lines

Damage = Callable[[TableBuilder], object]
Rows = list[dict[str, Any]]

HINT = f"{LOG}/_last_checkpoint"
SECOND = "p=1/f00002.parquet"


def editing(version: int, kind: str, **changes: Any) -> Damage:
    """Change members of the actions of one kind in a commit."""
    return lambda builder: edit_action(builder, version, kind, **changes)


def lying(**changes: Any) -> Damage:
    """Change the statistics of the second file."""
    return lambda builder: edit_stats(builder, 2, **changes)


def deleting(find: Callable[[TableBuilder], str]) -> Damage:
    return lambda builder: builder.store.delete_many([find(builder)])


def rewriting(find: Callable[[TableBuilder], str], change: Callable[[bytes], bytes]) -> Damage:
    """Change the bytes of a file."""

    def damage(builder: TableBuilder) -> None:
        name = find(builder)
        builder.store.put(name, change(builder.store.read(name)))

    return damage


def in_checkpoint(edit: Callable[[Rows], Rows], *, version: int | None = None) -> Damage:
    """Change the rows of a checkpoint; without a version, of the latest, without older commits."""

    def damage(builder: TableBuilder) -> None:
        builder.checkpoint(version)
        if version is None:
            builder.forget_commits(4)
        edit_parquet(builder.store, only_file(builder, ".checkpoint.parquet"), edit)

    return damage


def in_turn(*damages: Damage) -> Damage:
    def damage(builder: TableBuilder) -> None:
        for one in damages:
            one(builder)

    return damage


def commit(version: int) -> Callable[[TableBuilder], str]:
    return lambda builder: commit_path(version)


def the(ending: str) -> Callable[[TableBuilder], str]:
    """The one file with an ending."""
    return lambda builder: only_file(builder, ending)


def second(builder: TableBuilder) -> str:
    return SECOND


def _edit_metadata(**changes: Any) -> Callable[[Rows], Rows]:
    def edit(rows: Rows) -> Rows:
        for row in rows:
            if row["metaData"] is not None:
                row["metaData"] |= changes
        return rows

    return edit


def _lose_an_add(rows: Rows) -> Rows:
    first = next(row for row in rows if row["add"] is not None)
    return [row for row in rows if row is not first]


def _move_a_file(rows: Rows) -> Rows:
    next(row for row in rows if row["add"])["add"]["partitionValues"] = [("p", "77")]
    return rows


def let_checkpoints_contradict(builder: TableBuilder) -> None:
    builder.checkpoint(2)
    builder.checkpoint(4)
    builder.forget_commits(3)
    edit_parquet(builder.store, f"{LOG}/{4:020d}.checkpoint.parquet", _lose_an_add)


tear_the_hint = in_turn(
    lambda builder: builder.checkpoint(),
    lambda builder: builder.store.put(HINT, b'{"version":4,"si'),
)


def renaming_in_schema(name: bytes) -> Damage:
    """Rename a column without column mapping, as no writer may."""

    def rename(data: bytes) -> bytes:
        renamed = data.replace(rb"\"name\": \"name\"", rb"\"name\": \"%s\"" % name)
        assert renamed != data
        return renamed

    return rewriting(commit(0), rename)


def write_sum(builder: TableBuilder, error: int = 1) -> None:
    snapshot = DeltaLog(builder.store, fail).snapshot()
    write_checksum(builder.store, snapshot, snapshot.num_files + error, snapshot.size_bytes)


def resurrect_a_file(builder: TableBuilder) -> None:
    """A compacted file without the tombstone of a file that is older than its commits."""
    builder.remove(SECOND)
    builder.compact(3, 5)
    lose_tombstones(builder, SECOND)


def lose_tombstones(builder: TableBuilder, path: str) -> None:
    """Leave the tombstones of a path out of the compacted file."""
    name = only_file(builder, ".compacted.json")
    actions = [json.loads(line) for line in builder.store.read(name).splitlines()]
    kept = [a for a in actions if a.get("remove", {}).get("path") != path]
    builder.store.put(name, encode_lines(kept))


def add_it_again(builder: TableBuilder) -> None:
    """A row delete that forgets to remove the file as it was."""
    path = next(path for path, _ in list(builder.state.files)[:1])
    _, add = builder.delete_actions(path, [0])
    builder.commit(add)


def remove_it_again(builder: TableBuilder) -> None:
    """A writer that read an older version and did not look at the commits after it."""
    action = builder.remove_action(SECOND)
    builder.commit(action, builder.write_file([{"id": 1, "name": "n", "p": 1}]))
    builder.append([{"id": 2, "name": "n", "p": 1}])
    builder.commit(action)


def restore_without_removes(builder: TableBuilder) -> None:
    before = builder.version
    builder.append([{"id": 2, "name": "n", "p": 1}])
    builder.commit(operation="RESTORE", operationParameters={"version": before})


def remove_by_path_alone(builder: TableBuilder) -> None:
    """A writer that does not know deletion vectors: the file stays live."""
    path = next(path for path, vector in builder.state.files if vector)
    action = builder.remove_action(path)
    del action["remove"]["deletionVector"]
    builder.commit(action, engineInfo="Rewriter/1")


lengthen_a_file = rewriting(second, lambda data: _pad(data, 10))  # it can be read as before


def flip_a_vector(builder: TableBuilder) -> None:
    flip(builder.store, only_file(builder, ".bin"), -6)


def edit_vector(builder: TableBuilder, **changes: Any) -> None:
    add = next(a["add"] for a in builder.commits[4] if "add" in a)
    edit_action(builder, 4, "add", deletionVector={**add["deletionVector"], **changes})


def garble_a_name_in_a_checkpoint(builder: TableBuilder) -> None:
    builder.checkpoint()
    name = only_file(builder, ".checkpoint.parquet")
    found = pq.read_table(io.BytesIO(builder.store.read(name)))
    sink = io.BytesIO()
    pq.write_table(found, sink, compression="none", use_dictionary=False)
    builder.store.put(name, sink.getvalue().replace(b"f00002", b"f0000\xff"))


_OLD_PROTOCOL: Final[dict[str, Any]] = {
    "minReaderVersion": 1, "minWriterVersion": 2, "readerFeatures": None, "writerFeatures": None,
}  # fmt: skip
DAMAGES: Final[list[tuple[str, str, Damage]]] = [
    ("LOG_GAP", "a commit is lost", deleting(commit(2))),
    (
        "LOG_GAP",
        "the newest commit is lost",
        in_turn(lambda builder: write_sum(builder, 0), deleting(commit(4))),
    ),
    (
        "HISTORY_GAP",
        "an old commit is lost",
        in_turn(lambda builder: builder.checkpoint(3), deleting(commit(2))),
    ),
    ("COMMIT_UNREADABLE", "a torn commit", rewriting(commit(2), lambda data: data[:-9])),
    (
        "COMMIT_UNREADABLE",
        "a garbled name",
        rewriting(commit(2), lambda data: data.replace(b"f00002", b"f0000\xff")),
    ),
    ("COMMIT_AMBIGUOUS", "said twice", rewriting(commit(0), lambda data: data + data)),
    (
        "COMMIT_DOUBTFUL",
        "a copy of another commit",
        lambda builder: builder.store.put(commit_path(2), builder.store.read(commit_path(1))),
    ),
    (
        "LOG_ACTION_MISSING",
        "no protocol",
        lambda builder: edit_commit(builder, 0, lambda a: None if "protocol" in a else a),
    ),
    ("LOG_UNREADABLE", "a schema", in_checkpoint(_edit_metadata(schemaString="{"))),
    ("SCHEMA_INVALID", "no such column", in_checkpoint(_edit_metadata(partitionColumns=["nope"]))),
    (
        "DEFAULT_UNCLEAR",
        "a later column with a default",
        lambda builder: builder.change_metadata(
            columns=[*builder.columns, Column("later", metadata={"EXISTS_DEFAULT": "1"})]
        ),
    ),
    ("SCHEMA_EMPTY", "no schema", editing(0, "metaData", schemaString="")),
    (
        "SCHEMA_MISSING",
        "a schema that comes later",
        in_turn(
            lambda builder: builder.change_metadata(), editing(0, "metaData", schemaString=None)
        ),
    ),
    ("PROTOCOL_INVALID", "features too early", editing(0, "protocol", minReaderVersion=2)),
    ("FEATURE_MISSING", "vectors not listed", editing(0, "protocol", **_OLD_PROTOCOL)),
    (
        "CHECKPOINT_UNREADABLE",
        "a torn checkpoint",
        in_turn(
            lambda builder: builder.checkpoint(),
            rewriting(the(".checkpoint.parquet"), lambda data: data[:-20]),
        ),
    ),
    ("CHECKPOINT_WRONG", "a lost file", in_checkpoint(_lose_an_add, version=3)),
    ("CHECKPOINT_WRONG", "a moved file", in_checkpoint(_move_a_file, version=3)),
    ("CHECKPOINT_DOUBTFUL", "contradictions", let_checkpoints_contradict),
    ("HINT_WRONG", "a torn hint", tear_the_hint),
    ("HINT_WRONG", "no checkpoint", lambda builder: builder.hint(3)),
    ("CHECKSUM_WRONG", "a wrong number", write_sum),
    ("COMPACTED_WRONG", "a lost tombstone", resurrect_a_file),
    ("PATH_INVALID", "outside", editing(3, "add", path="../elsewhere.parquet")),
    ("FILE_DUPLICATE", "added again", add_it_again),
    ("REMOVE_MISSED", "removed by path", remove_by_path_alone),
    ("REMOVE_REPEATED", "removed twice", remove_it_again),
    ("RESTORE_INCOMPLETE", "a file is left", restore_without_removes),
    ("FILE_MISSING", "lost", deleting(second)),
    ("FILE_SIZE", "longer", lengthen_a_file),
    ("FILE_UNCHECKED", "a host", editing(2, "add", path="file://other/x/f.parquet")),
    ("FILE_UNREADABLE", "torn", rewriting(second, lambda data: data[:-4] + b"oops")),
    ("COLUMN_UNKNOWN", "another name", renaming_in_schema(b"title")),
    ("COLUMN_CASE", "another case", renaming_in_schema(b"Name")),
    ("STATS_ROWS", "a row too many", lying(numRecords=9)),
    ("STATS_NULLS", "no null", lying(nullCount={"name": 0})),
    ("STATS_BOUNDS", "minimum", lying(minValues={"id": 11})),
    ("STATS_BOUNDS", "maximum", lying(maxValues={"name": "n6"})),
    ("STATS_LOOSE", "not tight", lying(tightBounds=True, maxValues={"id": 18})),
    ("STATS_UNREADABLE", "no JSON", editing(2, "add", stats="numRecords: 8")),
    ("PARTITION_VALUE", "no number", editing(2, "add", partitionValues={"p": "one"})),
    ("VECTOR_MISSING", "lost", deleting(the(".bin"))),
    ("VECTOR_UNREADABLE", "flipped", flip_a_vector),
    ("VECTOR_CARDINALITY", "miscounted", lambda builder: edit_vector(builder, cardinality=3)),
    ("VECTOR_ROWS", "beyond the end", lambda builder: builder.delete_rows(SECOND, [8])),
]
