import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltactl.errors import (
    AccessDeniedError,
    CredentialsExpiredError,
    NotATableError,
    ObjectNotFoundError,
)
from deltactl.log.commits.contents import CommitReader
from deltactl.log.history.columns import HistoryRow
from deltactl.log.history.read import Selection, read_history
from deltactl.log.listing import list_log
from deltactl.protocol.names import commit_name
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.support.forwarding import ForwardingStore
from tests.support.history_logs import (
    PROTOCOL,
    START_MS,
    add,
    ict_properties,
    info,
    log_path,
    metadata,
    set_time,
    write_checkpoint,
    write_commit,
    write_log,
)
from tests.support.stores import CountingStore, MemoryStore

DELTA_COLUMNS = {
    "version": pa.int64(),
    "timestamp": pa.timestamp("ms", "UTC"),
    "userId": pa.string(),
    "userName": pa.string(),
    "operation": pa.string(),
    "operationParameters": pa.map_(pa.string(), pa.string()),
    "job": pa.struct(
        [
            (name, pa.string())
            for name in ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")
        ]
    ),
    "notebook": pa.struct([("notebookId", pa.string())]),
    "clusterId": pa.string(),
    "readVersion": pa.int64(),
    "isolationLevel": pa.string(),
    "isBlindAppend": pa.bool_(),
    "operationMetrics": pa.map_(pa.string(), pa.string()),
    "userMetadata": pa.string(),
    "engineInfo": pa.string(),
}


def read(root: Path, store: Store | None = None, **selection: Any) -> list[HistoryRow]:
    store = store or open_store(str(root))
    return list(read_history(CommitReader(store), list_log(store), Selection(**selection)).rows)


def versions(rows: Sequence[HistoryRow]) -> list[int]:
    return [row["version"] for row in rows]


def times(rows: list[HistoryRow]) -> list[int | None]:
    return [None if row["timestamp"] is None else row["timestamp"] - START_MS for row in rows]


def test_columns_are_deltas_then_ours(tmp_path: Path) -> None:
    store = open_store(str(write_log(tmp_path, 2)))
    table = read_history(CommitReader(store), list_log(store)).table()
    assert dict(zip(table.schema.names, table.schema.types, strict=True)) == {
        **DELTA_COLUMNS,
        "otherInfo": pa.map_(pa.string(), pa.string()),
        "reconstructible": pa.bool_(),
        "problem": pa.string(),
    }
    assert table["version"].to_pylist() == [1, 0]
    assert table["operationParameters"].to_pylist() == [None, None]


def test_odd_commits_as_delta_on_spark_shows_them(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    write_commit(tmp_path, 1, add("a"))
    write_commit(
        tmp_path,
        2,
        add("b"),
        info(job={"jobId": "7", "runs": 1}, notebook={"notebookId": "n"}, userId="u"),
    )
    parameters = {"a": 1, "b": True, "c": None, "g": "s"}
    write_commit(
        tmp_path,
        3,
        info("X", operationParameters=parameters, operationMetrics={"m": 5}),
        info("Y", operationParameters={}),
    )
    three, two, one, _ = read(tmp_path)
    assert (three["operation"], three["operationMetrics"]) == ("X", {"m": "5"})
    assert three["operationParameters"] == {"a": "1", "b": "true", "c": None, "g": "s"}
    assert two["job"] == {**dict.fromkeys(two["job"]), "jobId": "7"}
    assert (two["notebook"], two["userId"]) == ({"notebookId": "n"}, "u")
    nulls: HistoryRow = {**dict.fromkeys(DELTA_COLUMNS), "operationParameters": {}}
    assert one == nulls | {
        "version": 1,
        "timestamp": START_MS + 1000,
        "otherInfo": None,
        "reconstructible": True,
        "problem": None,
    }


def test_parameters_of_any_type_are_text(tmp_path: Path) -> None:
    text = (
        '{"commitInfo":{"operation":"X","operationParameters":{"list":["a", 1],'
        '"object":{"k":{"n":null}},"number":1.50E3,"text":"[\\"x\\"]","unicode":["é"]}}}\n'
    )
    write_log(tmp_path, 1)
    write_commit(tmp_path, 1, text=text)
    assert read(tmp_path)[0]["operationParameters"] == {
        "list": '["a",1]',
        "object": '{"k":{"n":null}}',
        "number": "1.50E3",
        "text": '["x"]',
        "unicode": '["é"]',
    }


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("operationMetrics", "none", None),
        ("operationMetrics", ["a"], None),
        ("operationParameters", 7, None),
        ("job", "nightly", None),
        ("notebook", 3, None),
        ("readVersion", "12", 12),
        ("readVersion", 12.0, 12),
        ("readVersion", 12.5, None),
        ("readVersion", True, None),
        ("readVersion", 2**63, None),
        ("readVersion", {"v": 1}, None),
        ("isBlindAppend", "true", True),
        ("isBlindAppend", 1, None),
        ("userName", {"first": "a"}, '{"first":"a"}'),
        ("userName", 5, "5"),
        ("operation", ["WRITE"], '["WRITE"]'),
        ("operation", "x" * 10_000, "x" * 10_000),
        ("engineInfo", "\x1b[31m[red]x", "\x1b[31m[red]x"),
    ],
)
def test_fields_of_other_types_never_fail(
    tmp_path: Path, field: str, value: Any, expected: Any
) -> None:
    write_log(tmp_path, 1)
    write_commit(tmp_path, 1, {"commitInfo": {field: value}})
    assert read(tmp_path)[0][field] == expected


def test_half_a_surrogate_pair_still_becomes_arrow(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    write_commit(
        tmp_path, 1, text='{"commitInfo":{"userName":"a\\ud800","job":{"jobId":"\\udc00"}}}'
    )
    store = open_store(str(tmp_path))
    table = read_history(CommitReader(store), list_log(store)).table()
    assert table["userName"][0].as_py() == "a\ufffd"
    assert table["job"][0].as_py()["jobId"] == "\ufffd"


def test_a_line_that_only_mentions_commit_info_is_not_one(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    write_commit(
        tmp_path,
        1,
        {"add": {"path": "x", "partitionValues": {"commitInfo": "p"}}},
        add('"commitInfo"'),
        info("RIGHT"),
    )
    assert read(tmp_path)[0]["operation"] == "RIGHT"


def test_file_times_ascend_by_a_millisecond(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    for version, ms in enumerate((5000, 5000, 4000, 9000, 9000)):
        set_time(log_path(tmp_path, version), START_MS + ms)
    assert times(read(tmp_path)) == [9001, 9000, 5002, 5001, 5000]
    # The truth of the whole chain, also where less is shown.
    assert times(read(tmp_path, limit=3)) == [9001, 9000, 5002]


def in_commit_log(root: Path, timed: dict[int, int], count: int, **properties: str) -> Path:
    """A log whose ``timed`` versions carry an in-commit timestamp of so many ms after the start."""
    for version in range(count):
        ict: dict[str, Any] = {}
        if version in timed:
            ict["inCommitTimestamp"] = START_MS + timed[version]
        actions = [info(**ict), add(f"f{version}")]
        if version == 0:
            actions += [PROTOCOL, metadata(**properties)]
        write_commit(root, version, *actions)
    return root


def test_in_commit_timestamps_from_the_start(tmp_path: Path) -> None:
    in_commit_log(tmp_path, {0: 7, 1: 8, 2: 99_000}, 3, **ict_properties())
    assert times(read(tmp_path)) == [99_000, 8, 7]
    assert times(read(tmp_path, limit=1)) == [99_000]


def test_in_commit_timestamps_enabled_later(tmp_path: Path) -> None:
    in_commit_log(tmp_path, {2: 55, 3: 56}, 4)
    write_commit(
        tmp_path, 2, info(inCommitTimestamp=START_MS + 55), metadata(**ict_properties(version=2))
    )
    set_time(log_path(tmp_path, 1), START_MS - 5)
    assert times(read(tmp_path)) == [56, 55, 1, 0]
    assert times(read(tmp_path, limit=1)) == [56]


def test_in_commit_timestamps_before_the_enablement_do_not_count(tmp_path: Path) -> None:
    in_commit_log(tmp_path, {0: 1, 1: 2, 2: 3, 3: 4}, 4, **ict_properties(version=2))
    assert times(read(tmp_path)) == [4, 3, 1000, 0]


def test_in_commit_timestamps_switched_off(tmp_path: Path) -> None:
    in_commit_log(tmp_path, {0: 7, 1: 8}, 4, **ict_properties())
    write_commit(tmp_path, 2, info(), metadata(**ict_properties("false")))
    assert times(read(tmp_path)) == [3000, 2000, 1000, 0]
    assert times(read(tmp_path, last_version=1)) == [1000, 0]


def test_an_in_commit_timestamp_that_is_lacking_is_reported(tmp_path: Path) -> None:
    in_commit_log(tmp_path, {0: 7, 2: 9}, 3, **ict_properties())
    rows = read(tmp_path)
    assert times(rows) == [9, 1000, 7]
    assert [row["problem"] is not None for row in rows] == [False, True, False]
    assert all(row["reconstructible"] for row in rows)


def test_absurd_timestamps(tmp_path: Path) -> None:
    year_300000 = 9_404_914_161_600_000
    in_commit_log(tmp_path, {0: 0, 1: year_300000 - START_MS}, 2, **ict_properties())
    rows = read(tmp_path)
    assert rows[0]["timestamp"] == year_300000
    write_commit(tmp_path, 2, info(inCommitTimestamp=10**30))
    write_commit(tmp_path, 3, info(inCommitTimestamp="soon", timestamp="x"))
    store = open_store(str(tmp_path))
    assert read_history(CommitReader(store), list_log(store)).table().num_rows == 4


def test_limit_reads_only_what_it_shows(tmp_path: Path) -> None:
    store = CountingStore(open_store(str(write_log(tmp_path, 50))))
    rows = read(tmp_path, store, limit=3)
    assert versions(rows) == [49, 48, 47]
    assert store.calls == {"list_from": 1, "read_many": 1}
    shown = [str(log_path(tmp_path, v).relative_to(tmp_path)) for v in (49, 48, 47)]
    assert store.names["read_many"] == shown


def test_times_are_chosen_before_anything_is_read(tmp_path: Path) -> None:
    store = CountingStore(open_store(str(write_log(tmp_path, 50))))
    rows = read(tmp_path, store, since_ms=START_MS + 10_000, until_ms=START_MS + 12_500)
    assert versions(rows) == [12, 11, 10]
    # The newest commit tells which kind of time holds.
    assert len(store.names["read_many"]) == 4


def test_times_with_in_commit_timestamps(tmp_path: Path) -> None:
    timed = {version: version * 10 for version in range(6)}
    in_commit_log(tmp_path, timed, 6, **ict_properties())
    assert versions(read(tmp_path, since_ms=START_MS + 20, until_ms=START_MS + 39)) == [3, 2]
    assert versions(read(tmp_path, until_ms=START_MS - 1)) == []
    assert versions(read(tmp_path, until_ms=START_MS + 39, limit=1)) == [3]


def test_versions_and_operations(tmp_path: Path) -> None:
    write_log(tmp_path, 6)
    write_commit(tmp_path, 3, info("MERGE"))
    assert versions(read(tmp_path, first_version=2, last_version=4)) == [4, 3, 2]
    assert versions(read(tmp_path, last_version=99, first_version=4)) == [5, 4]
    assert versions(read(tmp_path, operations=("merge", "Create Table"))) == [3, 0]
    store = open_store(str(tmp_path))
    found = read_history(
        CommitReader(store), list_log(store), Selection(limit=2, operations=("WRITE",))
    )
    assert (versions(found.rows), found.num_unread) == ([5, 4], 4)


def test_a_gap_is_marked(tmp_path: Path) -> None:
    write_log(tmp_path, 6)
    log_path(tmp_path, 3).unlink()
    rows = read(tmp_path)
    assert versions(rows) == [5, 4, 3, 2, 1, 0]
    assert [row["reconstructible"] for row in rows] == [False, False, False, True, True, True]
    hole = rows[2]
    assert (hole["problem"], hole["timestamp"]) == ("the commit file is missing", None)
    assert hole["operationParameters"] is None
    assert versions(read(tmp_path, limit=4)) == [5, 4, 3, 2]


def test_a_huge_gap_is_one_row(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    write_commit(tmp_path, 2**63 - 1, info("STRAY"), ms=START_MS)
    rows = read(tmp_path)
    assert versions(rows) == [2**63 - 1, 2**63 - 2, 2, 1, 0]
    assert rows[1]["problem"].startswith("commits 3 to 9223372036854775806 are missing")


def test_a_checkpoint_bridges_a_gap(tmp_path: Path) -> None:
    write_log(tmp_path, 6)
    write_checkpoint(tmp_path, 3)
    for version in (0, 1, 3):
        log_path(tmp_path, version).unlink()
    rows = read(tmp_path)
    # What log cleanup removed is no hole.
    assert versions(rows) == [5, 4, 3, 2]
    assert [row["reconstructible"] for row in rows] == [True, True, True, False]


def test_a_checkpoint_that_is_needed_is_looked_into(tmp_path: Path) -> None:
    write_log(tmp_path, 6)
    log_path(tmp_path, 0).unlink()
    broken = tmp_path / "_delta_log" / f"{2:020d}.checkpoint.parquet"
    broken.write_bytes(b"PAR1 not a checkpoint PAR1")
    assert not any(row["reconstructible"] for row in read(tmp_path))
    write_checkpoint(tmp_path, 4)
    assert [row["version"] for row in read(tmp_path) if row["reconstructible"]] == [5, 4]
    sidecar = {"sidecar": {"path": "gone.parquet", "sizeInBytes": 1, "modificationTime": 1}}
    write_checkpoint(tmp_path, 4, [sidecar])
    assert not any(row["reconstructible"] for row in read(tmp_path))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("not json", "line 1: not valid JSON"),
        ("\0" * 5, "line 1: it contains only zero bytes"),
        ("{}\n" + "\0" * 3, "line 2: it contains only zero bytes"),
        ('{"commitInfo":{"operation":"WR', "line 1: not valid JSON"),
        ('{"commitInfo":{"operation":"W"}}\n{"add":{"path":"x","partitionV', "line 2: not valid"),
        ('{"commitInfo":{"operation":"W"}}\n{"add":{"path":"x","tags":{}', "line 2: not valid"),
        ("[]\n", "not a JSON object"),
        ("[" * 100_000, "not valid JSON"),
        ('{"commitInfo":{"x":' + "9" * 5000 + "}}", "not valid JSON"),
    ],
)
def test_a_truncated_commit_is_marked(tmp_path: Path, text: str, problem: str) -> None:
    write_log(tmp_path, 4)
    write_commit(tmp_path, 2, text=text)
    rows = read(tmp_path)
    assert versions(rows) == [3, 2, 1, 0]
    assert problem in rows[1]["problem"]
    assert rows[1]["timestamp"] == START_MS + 2000
    assert [row["reconstructible"] for row in rows] == [False, False, True, True]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    write_log(tmp_path, 2)
    write_commit(tmp_path, 1, text="").write_bytes(b"\xff\xfe\x00{}")
    assert "not valid JSON" in read(tmp_path)[0]["problem"]


class Vanishing(ForwardingStore):
    """Lists commits that cannot be read."""

    def __init__(self, inner: Store, gone: set[int], error: type[Exception]) -> None:
        super().__init__(inner)
        self._gone = {f"_delta_log/{version:020d}.json" for version in gone}
        self._error = error

    def read(self, name: str) -> bytes:
        if name in self._gone:
            raise self._error(f"cannot read {name!r}")
        return super().read(name)

    def read_many(self, names: Any) -> Any:
        return (self.read(name) for name in names)


def test_files_that_vanish_are_left_out(tmp_path: Path) -> None:
    inner = open_store(str(write_log(tmp_path, 6)))
    store = Vanishing(inner, {5, 3, 2}, ObjectNotFoundError)
    assert versions(read(tmp_path, store)) == [4, 1, 0]


def test_a_commit_that_is_refused_is_marked_but_not_all(tmp_path: Path) -> None:
    inner = open_store(str(write_log(tmp_path, 30)))
    rows = read(tmp_path, Vanishing(inner, {7}, AccessDeniedError))
    assert [row["version"] for row in rows if row["problem"]] == [7]
    with pytest.raises(AccessDeniedError):
        read(tmp_path, Vanishing(inner, set(range(30)), AccessDeniedError))


def test_expired_credentials_are_not_the_problem_of_a_commit(tmp_path: Path) -> None:
    inner = open_store(str(write_log(tmp_path, 30)))
    with pytest.raises(CredentialsExpiredError):
        read(tmp_path, Vanishing(inner, {7}, CredentialsExpiredError))


def test_unknown_features_do_not_matter(tmp_path: Path) -> None:
    features = {"readerFeatures": ["fromTheFuture"], "writerFeatures": ["fromTheFuture"]}
    protocol = {"protocol": {"minReaderVersion": 9, "minWriterVersion": 99, **features}}
    write_commit(tmp_path, 0, info("CREATE"), protocol, metadata(), {"novelAction": {"x": 1}})
    assert read(tmp_path)[0]["reconstructible"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "the directory is empty or missing"),
        (lambda p: p.mkdir(), "the directory is empty or missing"),
        (lambda p: p.write_text("x"), "is a file, not a Delta table"),
        (lambda p: ((p / "d").mkdir(parents=True), (p / "d/x").write_text("")), "no _delta_log"),
        (lambda p: (p / "_delta_log").mkdir(parents=True), "its _delta_log contains no commits"),
        (
            lambda p: ((p / "_delta_log").mkdir(parents=True), (p / "_delta_log/x").write_text("")),
            "its _delta_log contains no commits",
        ),
    ],
)
def test_where_no_table_is(tmp_path: Path, make: Any, message: str) -> None:
    place = tmp_path / "a place"
    make(place)
    with pytest.raises(NotATableError, match=message):
        read(place)


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (["place/t 1/_delta_log/0.json", "place/x.parquet"], "the pattern '{}/place/**' for all"),
        (["place/a/b/_delta_log/0.json"], "such as {}/place/a/b, or"),
        (["place/p=1/x.parquet"], "`deltactl convert {}/place`"),
        (["place/metadata/v1.metadata.json", "place/x.parquet"], "Iceberg"),
        (["place/x.csv"], "contains _delta_log"),
        (["place/a %b/_delta_log/0.json"], "such as {}/place/a%20%25b, or"),
        (["plaice/x.parquet"], "contains _delta_log"),
        (["other/_delta_log/0.json"], "contains _delta_log"),
    ],
)
def test_the_hint_depends_on_what_is_there(tmp_path: Path, files: list[str], hint: str) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    with pytest.raises(NotATableError) as caught:
        read(tmp_path / "place")
    assert hint.format(open_store(str(tmp_path)).uri) in str(caught.value.hint)


@pytest.mark.parametrize(("name", "shown"), [("plaice", "plaice"), ("plac%e", "plac%25e")])
def test_a_table_with_a_similar_name_is_a_question(tmp_path: Path, name: str, shown: str) -> None:
    (tmp_path / name / "_delta_log").mkdir(parents=True)
    (tmp_path / name / "_delta_log/0.json").write_text("")
    with pytest.raises(NotATableError) as caught:
        read(tmp_path / "place")
    assert caught.value.message.endswith(f". Did you mean {open_store(str(tmp_path)).uri}/{shown}?")
    assert "table at" not in (caught.value.hint or "")


def test_inside_a_table_the_table_is_named(tmp_path: Path) -> None:
    write_log(tmp_path / "the table", 1)
    inside = tmp_path / "the table" / "p=1"
    inside.mkdir()
    (inside / "x.parquet").write_text("")
    with pytest.raises(NotATableError) as caught:
        read(inside)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("the%20table.")


@pytest.mark.corpus
def test_every_table_of_other_writers_has_a_history(corpus: Path) -> None:
    for table in sorted((corpus / "tables").iterdir()):
        if not (table / "_delta_log").is_dir():
            continue
        names = [p.name for p in (table / "_delta_log").iterdir()]
        commits = {int(n[:20]) for n in names if len(n) == 25 and n[:20].isdigit()}
        rows = read(table)
        assert {r["version"] for r in rows if r["timestamp"] is not None} == commits, table.name
        assert [r["version"] for r in rows] == sorted((r["version"] for r in rows), reverse=True)


@pytest.mark.corpus
def test_versions_that_can_be_read_are_marked_so(corpus: Path) -> None:
    for entry in json.loads((corpus / "manifest.json").read_text()):
        if entry["expect"]["outcome"] != "ok":
            continue
        rows = {r["version"]: r for r in read(corpus / "tables" / entry["name"])}
        for known in entry["expect"].get("versions", []):
            assert rows[known["version"]]["reconstructible"], (entry["name"], known)


def test_rows_are_made_when_they_are_asked_for() -> None:
    """A row takes 0.7 KB, of which a log may want millions."""
    store = MemoryStore("memory://long")
    count = 3_000
    for version in range(count):
        store.put(f"_delta_log/{commit_name(version)}", b"")
    listing = list_log(store)
    tracemalloc.start()
    try:
        history = read_history(CommitReader(store), listing)
        assert tracemalloc.get_traced_memory()[0] < 500 * count
    finally:
        tracemalloc.stop()
    assert versions(history.rows) == list(range(count))[::-1]
    assert versions(history.rows[5:3:-1]) == [count - 6, count - 5]
    assert history.rows[-1]["version"] == 0
    assert history.table().num_rows == count
