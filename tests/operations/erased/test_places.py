"""A value is found in the place that it is in, and nowhere else."""

import io
import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl.log.delta_log import DeltaLog
from deltactl.operations.erased.report import ErasedReport
from deltactl.operations.erased.run import search_erased
from deltactl.storage.store import Store
from tests.support.checkpoints import DAY_MS, PicklingEngine, memory_of, new_table
from tests.support.run import run_on
from tests.support.table_builder import (
    LOG,
    Column,
    TableBuilder,
    commit_path,
    encode_lines,
    struct_of,
)

NAME, ID, PART = "zebra.jane@example.com", 4242, "zebra=x y"
BY_NAME, BY_ID, BY_PART = f"name = '{NAME}'", f"id = {ID}", f"p = '{PART}'"
NOTHING = "id = 4243 OR name = 'zebra.jan' OR p = 'ebra'"
WRITERS = "part-0000{}-3f2b7d1e-0c1d-4a7e-9a55-0123456789ab-c000.snappy.parquet"
RUN = "20240131T120000Z-0a1b2c3d"


def search(store: Store, predicate: str, **options: Any) -> ErasedReport:
    """Search a table, with tasks that travel in bytes."""

    def run(log: Any, _: None, context: Any) -> ErasedReport:
        return search_erased(log, predicate, context, **options)

    return run_on(store, run, None, engine=PicklingEngine())


def base(**options: Any) -> TableBuilder:
    columns = [Column("id", "long"), Column("name", "string"), Column("p", "string")]
    builder = new_table(*columns, partition_by=["p"], **options)
    ends = [{"id": 1, "name": "a", "p": "q"}, {"id": 9999, "name": "zz", "p": "q"}]
    builder.append(ends, name=WRITERS.format(1))
    return builder


def rows(value: int | None = ID, name: str | None = NAME) -> list[dict[str, Any]]:
    ends = [{"id": 1, "name": "a", "p": "q"}, {"id": 9999, "name": "zz", "p": "q"}]
    return [ends[0], {"id": value, "name": name, "p": "q"}, ends[1]]


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def data() -> bytes:
    return parquet(id=pa.array([1, ID, 9999]), name=["a", NAME, "zz"], p=["q", PART, "q"])


def put(*files: bytes | str) -> Callable[[TableBuilder], object]:
    """Put files: the name of each, then its content."""
    encoded = [it if isinstance(it, bytes) else it.encode() for it in files[1::2]]

    def plant(builder: TableBuilder) -> None:
        for name, content in zip(files[::2], encoded, strict=True):
            builder.store.put(str(name), content)

    return plant


def note(**info: Any) -> Callable[[TableBuilder], object]:
    return lambda builder: builder.commit(**{"operation": "DELETE", **info})


def add_stats(side: str, **values: Any) -> Callable[[TableBuilder], object]:
    """An add whose bounds have a value that no row has."""
    counts = {"numRecords": 4243, "nullCount": {"id": 4243, "who": {"id": 4243}}}
    stats = json.dumps({**counts, side: values})
    return lambda builder: builder.append(rows(5, "b"), stats=stats)


def hide_row(builder: TableBuilder) -> None:
    (path,) = builder.append(rows())
    builder.delete_rows(path, [1])


def keep_for_time_travel(builder: TableBuilder) -> None:
    builder.remove(*builder.append(rows()))


def remove_without_values(builder: TableBuilder) -> None:
    """The tombstone, which is read before the add, has no partition values."""
    content = parquet(id=[ID], name=["b"])
    builder.store.put("x.parquet", content)
    body = {"path": "x.parquet", "partitionValues": {"p": "q"}, "modificationTime": 1}
    builder.commit({"add": {**body, "size": len(content), "dataChange": True}})
    removed = builder.remove_action("x.parquet")
    removed["remove"].pop("partitionValues", None)
    builder.commit(removed)
    builder.checkpoint()


def change(builder: TableBuilder) -> None:
    name = "_change_data/cdc-1.parquet"
    builder.store.put(name, data())
    body = {"path": name, "partitionValues": {"p": "q"}, "size": 1, "dataChange": False}
    builder.commit({"cdc": body})


def hide_stored(builder: TableBuilder) -> None:
    """A file whose partition column has another value than the log, as after a conversion."""
    builder.store.put("p=q/x.parquet", data())
    builder.commit(builder.adopt("p=q/x.parquet", partitionValues={"p": "q"}))
    builder.delete_rows("p=q/x.parquet", [1])


def remove_partition(builder: TableBuilder) -> None:
    body = {"path": "gone", "partitionValues": {"p": PART}, "deletionTimestamp": 1}
    builder.commit({"remove": {**body, "dataChange": True}})


def tag(builder: TableBuilder) -> None:
    body = {"path": "gone", "partitionValues": {"p": "q"}, "size": 1, "modificationTime": 1}
    remove = {"path": "gone", "deletionTimestamp": 1, "dataChange": True}
    builder.commit({"add": {**body, "dataChange": True, "tags": {"b": "c", "a": NAME}}})
    builder.commit({"remove": remove})


def comment(builder: TableBuilder) -> None:
    who = struct_of(Column("age", "integer", metadata={"comment": f"as in {NAME}"}))
    change_for_some_time(builder, [*builder.columns, Column("who", who)])


def only_checkpoint(plant: Callable[[TableBuilder], object], kind: str) -> Any:
    """Only a checkpoint has it: its commits are gone."""

    def run(builder: TableBuilder) -> None:
        plant(builder)
        builder.checkpoint(kind=kind)
        builder.commit()
        builder.store.delete_many([commit_path(v) for v in range(builder.version)])

    return run


def constrain(builder: TableBuilder) -> None:
    builder.change_metadata(properties={"delta.constraints.c": f"id <> {ID}"})


def constrain_for_some_time(builder: TableBuilder) -> None:
    constrain(builder)
    builder.change_metadata(configuration={})


DEFAULT = [
    Column("id", "long"),
    Column("name", "string", metadata={"CURRENT_DEFAULT": f"'{NAME}'"}),
    Column("p", "string"),
]


def checkpoint_default(builder: TableBuilder) -> None:
    before = builder.columns
    builder.change_metadata(columns=DEFAULT)
    builder.checkpoint()
    builder.change_metadata(columns=before)
    builder.store.delete_many([commit_path(v) for v in range(builder.version)])


def change_for_some_time(builder: TableBuilder, columns: list[Column]) -> None:
    before = builder.columns
    builder.change_metadata(columns=columns)
    builder.change_metadata(columns=before)


def set_identity(builder: TableBuilder) -> None:
    marks = {"delta.identity.start": 1, "delta.identity.highWaterMark": ID}
    columns = [Column("id", "long", metadata=marks), Column("name", "string")]
    change_for_some_time(builder, [*columns, Column("p", "string")])


def checksum(builder: TableBuilder) -> None:
    stats = json.dumps({"numRecords": 1, "maxValues": {"id": ID}})
    body = {"path": "x", "partitionValues": {"p": "q"}, "size": 1, "stats": stats}
    whole = {"allFiles": [{**body, "modificationTime": 1, "dataChange": False}]}
    builder.store.put(f"{LOG}/{builder.version:020d}.crc", json.dumps(whole).encode())


def sidecar(builder: TableBuilder) -> None:
    body = _actions("add", "p", PART)
    builder.store.put(f"{LOG}/_sidecars/00000000-0000-0000-0000-000000000001.parquet", body)


def _actions(action: str, column: str, value: str) -> bytes:
    """A checkpoint or sidecar with one file."""
    files = [{"path": "x", "partitionValues": [(column, value)], "size": 1}]
    kind = pa.struct(
        [("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string()))]
    )
    return parquet(**{action: pa.array(files, kind)})


_STAGED = encode_lines([{"commitInfo": {"operation": "WRITE", "userMetadata": f"for {ID}"}}])
_ADD = {"path": "p=q/stray.parquet", "partitionValues": {"p": "q"}, "size": 1}
_STRAY = encode_lines([{"add": {**_ADD, "modificationTime": 1, "dataChange": True}}])
_REMOVE = {
    "remove": {
        "path": "x",
        "partitionValues": {"id": str(ID)},
        "deletionTimestamp": 1,
        "dataChange": True,
    }
}
_PLAN = parquet(path=["p=zebra%3Dx y/f.parquet"], size_bytes=[1])


@dataclass(frozen=True)
class Planted:
    plant: Callable[[TableBuilder], object]
    predicate: str
    place: str
    part: str | None = None


PLANTED = {
    "live": Planted(lambda b: b.append(rows()), BY_ID, "live rows"),
    "hidden": Planted(hide_row, BY_ID, "rows that deletion vectors hide"),
    "older": Planted(keep_for_time_travel, BY_NAME, "files of older versions"),
    "older, removed without partition values": Planted(
        remove_without_values, f"{BY_ID} AND p = 'q'", "files of older versions"
    ),
    "unreferenced": Planted(put(f"p=q/{WRITERS.format(2)}", data()), BY_NAME, "unreferenced files"),
    "unknown": Planted(
        put("p=q/stray.parquet", data()), BY_NAME, "unknown files", "p=*/stray.parquet"
    ),
    "change data": Planted(change, BY_ID, "change data"),
    "quarantine": Planted(
        put(f"_deltactl/quarantine/{RUN}/p=q/f.parquet", data()),
        BY_ID,
        "quarantine without a journal",
        f"_deltactl/quarantine/{RUN}/p=*/f.parquet",
    ),
    "stored partition column": Planted(hide_stored, BY_PART, "rows that deletion vectors hide"),
    "minimum": Planted(add_stats("minValues", id=ID), BY_ID, "commits", "minima and maxima"),
    "truncated minimum": Planted(
        add_stats("minValues", name=NAME[:18]), BY_NAME, "commits", "minima and maxima"
    ),
    "truncated maximum": Planted(
        add_stats("maxValues", name=NAME[:18] + "\ufffd"), BY_NAME, "commits", "minima and maxima"
    ),
    "a number as a string": Planted(add_stats("minValues", id=str(ID)), BY_ID, "commits"),
    "a number in a list": Planted(add_stats("maxValues", id=[1, ID]), BY_ID, "commits"),
    "name of a data file": Planted(
        put(f"p=q/to_{NAME}_1.parquet", parquet(id=[5], name=["b"], p=["q"])),
        BY_NAME,
        "names of files and directories",
        f"p=*/to_{NAME}_1.parquet",
    ),
    "name of a data file like a partition": Planted(
        put(f"p=q/id={ID}-0.parquet", parquet(id=[5], name=["b"], p=["q"])),
        BY_ID,
        "names of files and directories",
    ),
    "documents in a file": Planted(
        put("metadata/x.metadata.json", json.dumps({"a": 1}) + "\n" + json.dumps({"a": NAME})),
        BY_NAME,
        "Iceberg metadata",
    ),
    "nested column of a record": Planted(
        put(f"_deltactl/vacuum/{RUN}/x.parquet", parquet(p=[[{"key": "p", "value": PART}]])),
        BY_PART,
        "journals of vacuums",
        f"_deltactl/vacuum/{RUN}",
    ),
    "classic checkpoint": Planted(
        only_checkpoint(add_stats("maxValues", id=ID), "classic"), BY_ID, "checkpoints"
    ),
    "v2 checkpoint": Planted(
        only_checkpoint(add_stats("maxValues", id=ID), "v2-json"), BY_ID, "checkpoints"
    ),
    "metadata in a checkpoint": Planted(checkpoint_default, BY_NAME, "checkpoints", "schemaString"),
    "unused sidecar": Planted(sidecar, BY_PART, "checkpoints", "partition values"),
    "checksum": Planted(checksum, BY_ID, "checksums", "minima and maxima"),
    "predicate": Planted(
        note(operationParameters={"predicate": f'["(id#12L = {ID}L)","(id = {ID})"]'}),
        BY_ID,
        "commits",
        "operationParameters",
    ),
    "note of a user": Planted(note(userMetadata=f"erase {ID}!"), BY_ID, "commits", "userMetadata"),
    "constraint": Planted(constrain_for_some_time, BY_ID, "commits", "configuration"),
    "file of another program": Planted(
        put(f"{LOG}/{0:020d}.json.bak", encode_lines([{"x": {"name": NAME}}])),
        BY_NAME,
        "other files of the log",
    ),
    "default": Planted(
        lambda b: change_for_some_time(b, DEFAULT), BY_NAME, "commits", "schemaString"
    ),
    "identity": Planted(set_identity, BY_ID, "commits", "schemaString"),
    "domain": Planted(
        lambda b: b.commit(
            {"domainMetadata": {"domain": "d", "configuration": NAME, "removed": True}}
        ),
        BY_NAME,
        "commits",
        "domainMetadata",
    ),
    "application id": Planted(
        lambda b: b.commit({"txn": {"appId": NAME, "version": 1}}), BY_NAME, "commits", "txn"
    ),
    "partition value": Planted(remove_partition, BY_PART, "commits", "partition values"),
    "copy of a commit that DynamoDB decides": Planted(
        put(f"{LOG}/.tmp/{9:020d}.json.7f1e", _STAGED),
        BY_ID,
        "other files of the log",
        f"{LOG}/.tmp/{9:020d}.json.7f1e",
    ),
    "staged commit": Planted(
        put(f"{LOG}/_staged_commits/{9:020d}.a.json", _STAGED), BY_ID, "commits", "userMetadata"
    ),
    "file of a copy of a commit": Planted(
        put("p=q/stray.parquet", data(), f"{LOG}/.tmp/{9:020d}.json.7f1e", _STRAY),
        BY_NAME,
        "unknown files",
        "p=*/stray.parquet",
    ),
    "file of a staged commit": Planted(
        put("p=q/stray.parquet", data(), f"{LOG}/_staged_commits/{9:020d}.a.json", _STRAY),
        BY_NAME,
        "unknown files",
    ),
    "file of an incomplete commit": Planted(
        put("p=q/stray.parquet", data(), f"{LOG}/.{9:020d}.json.x.tmp", _STRAY),
        BY_NAME,
        "unknown files",
    ),
    "directory": Planted(
        put("p=zebra%3Dx y/.f.crc", b""), BY_PART, "names of files and directories"
    ),
    "manifest": Planted(
        put("_symlink_format_manifest/manifest", "mem://t/p=zebra%3Dx y/f.parquet\n"),
        BY_PART,
        "symlink manifests",
    ),
    "path in a manifest": Planted(
        put(
            "_symlink_format_manifest/id=1/manifest",
            f"mem://t/p=q/id=1/f-{ID + 1}.parquet\n{NAME}\n",
        ),
        BY_NAME,
        "symlink manifests",
    ),
    "journal": Planted(
        put(f"_deltactl/vacuum/{RUN}/plan.parquet", _PLAN),
        BY_PART,
        "journals of vacuums",
        f"_deltactl/vacuum/{RUN}",
    ),
    "key in a summary of Iceberg": Planted(
        put(
            "metadata/1.metadata.json",
            json.dumps({"snapshots": [{"summary": {f"partitions.name={NAME}": "x"}}]}),
        ),
        BY_NAME,
        "Iceberg metadata",
    ),
    "key of a record": Planted(
        put("_deltactl/x.json", json.dumps({"a": {NAME: 1}})), BY_NAME, "records of deltactl"
    ),
    "key of an unknown action": Planted(
        lambda b: b.commit({"x": [{NAME: 1}]}), BY_NAME, "commits", "text"
    ),
    "name of an unknown action": Planted(
        put(f"{LOG}/_notes.json", json.dumps({NAME: 1})),
        BY_NAME,
        "other files of the log",
        f"{LOG}/_notes.json",
    ),
    "key of a parameter": Planted(
        note(operationParameters={NAME: True}), BY_NAME, "commits", "operationParameters"
    ),
    "iceberg": Planted(
        put("metadata/v1.metadata.json", json.dumps({"properties": {"x": NAME}})),
        BY_NAME,
        "Iceberg metadata",
    ),
    "a member that a writer added": Planted(note(id=ID), BY_ID, "commits", "commitInfo"),
    "a member with the name of a field": Planted(note(name=NAME), BY_NAME, "commits"),
    "tag": Planted(tag, BY_NAME, "commits", "tags"),
    "partition value, by OR": Planted(
        remove_partition, f"id = 4243 OR {BY_PART}", "commits", "partition values"
    ),
    "comment of a field of a struct": Planted(comment, BY_NAME, "commits", "schemaString"),
    "stray directory of another column": Planted(
        put("name=backup/stray.parquet", data()), BY_NAME, "unknown files"
    ),
    "JSON of another program": Planted(
        put("notes/x.json", json.dumps({"name": NAME})), BY_NAME, "other files"
    ),
    "number in JSON": Planted(put("x.json", json.dumps([{"id": ID}])), BY_ID, "other files"),
    "number below a header": Planted(put("x.csv", f"id,q\n{ID},1\n"), BY_ID, "other files"),
    "number below a header in capitals": Planted(
        put("x.csv", f"ID,Q\n{ID},1\n"), BY_ID, "other files"
    ),
    "file of a user beside metadata": Planted(
        put("metadata/x.csv", f"id,q\n{ID},1\n"), BY_ID, "other files"
    ),
    "file of a user in the log": Planted(
        put(f"{LOG}/x.csv", f"id,q\n{ID},1\n"), BY_ID, "other files"
    ),
    "Parquet in the log": Planted(put(f"{LOG}/copy/x.parquet", data()), BY_ID, "other files"),
    "number below a header, of another table": Planted(
        put("n/metadata/v1.metadata.json", "{}", "n/x.csv", f"id,q\n{ID},1\n"),
        BY_ID,
        "other tables",
    ),
    "number in JSON, of another table": Planted(
        put("n/metadata/v1.metadata.json", "{}", "n/x.json", json.dumps([{"id": ID}])),
        BY_ID,
        "other tables",
    ),
    "commit of another table": Planted(
        put(f"n/{LOG}/{1:020d}.json", encode_lines([_REMOVE])), BY_ID, "other tables"
    ),
    "checkpoint of another table": Planted(
        put(f"n/{LOG}/{1:020d}.checkpoint.parquet", _actions("add", "id", str(ID))),
        BY_ID,
        "other tables",
        "partition values",
    ),
    "Parquet with another name": Planted(put("x.parq", data()), BY_ID, "other files"),
    "name of another file": Planted(put(f"{NAME}.txt", "q"), BY_NAME, "other files", f"{NAME}.txt"),
    "word in the name of another file": Planted(
        put("p=q/of alice.txt", "q"), "name = 'alice'", "other files", "p=*/of alice.txt"
    ),
    "line of a record": Planted(
        put("_deltactl/x.txt", f"id is\u2028{ID}"), BY_ID, "records of deltactl"
    ),
    "text of a record": Planted(
        put("_deltactl/x.json", json.dumps({"name": f"id = {ID}"})), BY_ID, "records of deltactl"
    ),
    "other": Planted(put("notes/x.txt", f"ask {NAME}\n"), BY_NAME, "other files"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_value_is_found_in_its_place_only(name: str) -> None:
    builder = base(features=["deletionVectors"])
    planted = PLANTED[name]
    planted.plant(builder)
    builder.commit()
    report = search(builder.store, planted.predicate)
    assert [it.name for it in report.places] == [planted.place], report.to_dict()
    (place,) = report.places
    assert report.find_error() is None
    assert (place.files or place.entries) == 1
    assert place.rows in (1, None)
    if planted.part is not None:
        assert list(place.parts) == [planted.part]
    nothing = search(builder.store, NOTHING)
    assert nothing.is_erased, nothing.to_dict()


@pytest.mark.parametrize("word", ["metaData", "version", "location", "records", "main", "txt"])
def test_a_word_of_a_specification_is_no_value(word: str) -> None:
    builder = base()
    snapshot = {"snapshot-id": 1, "summary": {"operation": "append", "total-records": "1"}}
    iceberg = {"location": "", "snapshots": [snapshot], "refs": {"main": {"snapshot-id": 1}}}
    put("metadata/v1.metadata.json", json.dumps(iceberg), "notes.txt", "q")(builder)
    put(f"{LOG}/_last_checkpoint", json.dumps({"version": 0, "size": 1}))(builder)
    assert search(builder.store, f"name = '{word}'").is_erased


def test_a_number_of_another_action_in_the_hint_is_no_value() -> None:
    builder = base()
    domain = {"domain": "delta.rowTracking", "configuration": json.dumps({"mark": ID})}
    actions = [{"domainMetadata": {**domain, "removed": False}}]
    hint = {"version": 0, "size": 1, "v2Checkpoint": {"nonFileActions": actions}}
    put(f"{LOG}/_last_checkpoint", json.dumps(hint))(builder)
    assert search(builder.store, BY_ID).is_erased


def test_a_property_is_removed_before_the_log_is_cleaned_up() -> None:
    builder = base()
    builder.change_metadata(properties={"delta.constraints.c": f"id <> {ID}", "dpo's": NAME})
    builder.commit()
    for predicate, key in ((BY_ID, "delta.constraints.c"), (BY_NAME, "dpo's")):
        report = search(builder.store, predicate)
        assert [it.parts for it in report.places if it.name == "table properties"] == [(key,)]
        unset, cleanup = map(shlex.split, report.commands)
        assert unset[1:] == ["alter", builder.store.uri, "--unset", key]
        assert cleanup[1:] == ["checkpoint", builder.store.uri, "--cleanup"]
    builder.change_metadata(properties={f"of {NAME}": "x"})
    shown = json.dumps(search(builder.store, BY_NAME, redact=True).to_dict())
    assert "KEY" in shown
    assert "zebra" not in shown


def test_the_name_of_a_live_file_ends_by_a_rewrite() -> None:
    builder = base()
    builder.append(rows(5, "b"), name=f"to_{NAME}_1.parquet")
    report = search(builder.store, BY_NAME)
    (paths,) = (it for it in report.places if it.name == "names of files and directories")
    words = [shlex.split(it)[1] for it in report.commands]
    assert (len(paths.steps), words[:2]) == (2, ["optimize", "vacuum"])
    builder.append(rows())
    words = [shlex.split(it)[1] for it in search(builder.store, BY_NAME).commands]
    assert words[:3] == ["FROM", "optimize", "vacuum"]  # --purge; then no rewrite of all files


def test_live_metadata_is_changed_before_the_log_is_cleaned_up() -> None:
    builder = base()
    columns, who = builder.columns, Column("who", "string", metadata={"comment": f"as {NAME}"})
    domain = {"domain": "d", "configuration": NAME}
    builder.commit({"domainMetadata": {**domain, "removed": False}})
    builder.change_metadata(columns=[*columns, who], description=f"of {NAME}")
    builder.commit()
    report = search(builder.store, BY_NAME)
    (live,) = (it for it in report.places if it.name == "metadata of the table")
    assert (live.parts, live.steps) == (("description", "schemaString", "domain d"), ())
    assert report.commands == ()
    builder.commit({"domainMetadata": {**domain, "removed": True}})
    builder.change_metadata(columns=columns, description=None)
    report = search(builder.store, BY_NAME)
    assert "metadata of the table" not in [it.name for it in report.places]
    assert [shlex.split(it)[-1] for it in report.commands] == ["--cleanup"]


def test_a_file_that_no_cleanup_deletes_has_no_command() -> None:
    builder = base()
    builder.store.put(f"{LOG}/{0:020d}.json.bak", NAME.encode())
    (place,) = search(builder.store, BY_NAME).places
    assert (place.name, place.until_ms, place.steps) == ("other files of the log", None, ())


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (put("x.txt", NAME.encode("utf-16-le")), "x.txt"),
        (put("x.parq", parquet(mail=[NAME])), "x.parq"),
        (lambda builder: builder.append(rows(5, "b"), stats="{cut"), f"{LOG}/{2:020d}.json"),
    ],
)
def test_what_cannot_be_understood_is_not_searched(
    plant: Callable[[TableBuilder], object], name: str
) -> None:
    builder = base()
    plant(builder)
    report = search(builder.store, "name = 'zebra.jan'")
    assert report.places == ()
    assert name in [it.name for it in report.unread]
    assert not report.is_erased


def test_numbers_in_metadata_of_another_table_are_no_values() -> None:
    builder = base()
    field = {"id": ID, "name": "id", "type": "long"}
    builder.store.put("n/metadata/v1.metadata.json", json.dumps({"fields": [field]}).encode())
    changes: list[dict[str, Any]] = [
        {"txn": {"appId": "id", "version": ID}},
        {"commitInfo": {"timestamp": ID}},
    ]
    builder.store.put(f"n/{LOG}/{1:020d}.json", encode_lines(changes))
    assert search(builder.store, BY_ID).is_erased


def test_a_commit_during_the_search_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = base()
    original = DeltaLog.snapshot

    def snapshot(log: DeltaLog, **options: Any) -> Any:
        builder.commit(userMetadata=NAME)
        return original(log, **options)

    monkeypatch.setattr(DeltaLog, "snapshot", snapshot)
    (place,) = search(builder.store, BY_NAME).places
    assert place.name == "latest commit"


def test_a_file_of_a_commit_during_the_search_is_no_unknown_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder, original = base(), DeltaLog.snapshot

    def snapshot(log: DeltaLog, **options: Any) -> Any:
        found = original(log, **options)
        builder.append(rows(), name="stray.parquet")
        return found

    monkeypatch.setattr(DeltaLog, "snapshot", snapshot)
    assert "unreferenced files" in [it.name for it in search(builder.store, BY_NAME).places]


@pytest.mark.parametrize(("checkpoint", "days"), [(None, 30 + 20), (3, 30 + 10)])
def test_a_commit_stays_until_a_later_version_can_replace_it(
    checkpoint: int | None, days: int
) -> None:
    builder = base()
    for version, age in ((2, 0), (3, 10), (4, 20)):
        builder.commit(userMetadata=NAME if version == 2 else "")
        memory_of(builder).set_modified(commit_path(version), age * DAY_MS + 1)
    if checkpoint is not None:
        builder.checkpoint(checkpoint)
    (place,) = search(builder.store, BY_NAME).places
    assert (place.name, place.until_ms) == ("commits", (days + 1) * DAY_MS)


@pytest.mark.parametrize("zone", [UTC, None])
def test_a_bound_without_parts_of_a_millisecond_has_the_value(zone: tzinfo | None) -> None:
    kind, end = ("timestamp", "Z") if zone else ("timestamp_ntz", "")
    builder = new_table(Column("t", kind), features=[] if zone else ["timestampNtz"])
    bound = {"t": f"2024-01-31T12:00:00.123{end}"}
    stats = {"numRecords": 1, "minValues": bound, "maxValues": bound, "nullCount": {"t": 0}}
    builder.append([{"t": datetime(2024, 1, 31, 12, 0, 0, 123456, zone)}], stats=json.dumps(stats))
    builder.commit()
    report = search(builder.store, "t = '2024-01-31 12:00:00.123456'")
    assert [it.name for it in report.places] == ["commits", "live rows"]
    assert search(builder.store, "t = '2024-01-31 12:00:00.124456'").is_erased


@pytest.mark.parametrize(
    ("kind", "value", "bound", "other"),
    [
        ("decimal(18,2)", "123456789012345.67", "123456789012345.69", "123456789012345.00"),
        ("decimal(20,2)", "12345678901234567.89", "1.2345678901234568e+16", "12345678901234500"),
        ("decimal(18,2)", "9999999999999999.99", "1e+16", "9999999999999000"),
        ("decimal(20,2)", "-999999999999999999.99", "-9.999999999999999e+17", "-9999999999999990"),
        ("decimal(18,2)", "0.10", "0.1", "0.11"),
    ],
)
def test_a_bound_that_is_a_rounded_decimal_has_the_value(
    kind: str, value: str, bound: str, other: str
) -> None:
    """As delta-rs writes it: a double, which may have too many digits for the type."""
    builder = new_table(Column("m", kind))
    stats = f'{{"numRecords":1,"minValues":{{"m":{bound}}},"maxValues":{{"m":{bound}}}}}'
    builder.append([{"m": Decimal(value)}], stats=stats)
    builder.commit()
    report = search(builder.store, f"m = {value}")
    assert [it.name for it in report.places] == ["commits", "live rows"]
    assert search(builder.store, f"m = {other}").is_erased


def test_an_exact_bound_is_no_rounded_decimal() -> None:
    builder = new_table(Column("m", "decimal(20,2)"))
    stats = '{"numRecords":1,"minValues":{"m":12345678901234567.89}}'
    builder.append([{"m": Decimal("12345678901234567.89")}], stats=stats)
    assert search(builder.store, "m = 12345678901234567.88").is_erased


@pytest.mark.parametrize(
    ("name", "kept_ms"),
    [
        ("change data", 7 * DAY_MS),
        ("unreferenced", 7 * DAY_MS),
        ("Parquet with another name", None),
    ],
)
def test_a_file_is_kept_as_long_as_a_vacuum_keeps_it(name: str, kept_ms: int | None) -> None:
    builder = base()
    planted = PLANTED[name]
    planted.plant(builder)
    builder.commit()
    files = [it for batch in builder.store.walk() for it in batch if not it.startswith(LOG)]
    for file in files:
        memory_of(builder).set_modified(file, 5)
    for version in range(builder.version + 1):
        memory_of(builder).set_modified(commit_path(version), version + 1)
    (place,) = search(builder.store, planted.predicate).places
    since_ms = {"change data": 5, "unreferenced": 5}.get(name, 0)
    assert place.until_ms == (None if kept_ms is None else kept_ms + since_ms)
