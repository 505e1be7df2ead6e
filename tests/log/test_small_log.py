"""Short logs read without Arrow: as the whole reader reads them, or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from deltactl.errors import DeltactlError
from deltactl.log.listing import list_log
from deltactl.log.small_log import ReadBefore, SmallLog, read_small_log
from deltactl.log.snapshot import load_snapshot
from deltactl.operations.detail import load_detail
from deltactl.storage.open import open_store
from tests.support.history_logs import (
    PROTOCOL,
    START_MS,
    Action,
    add,
    ict_properties,
    info,
    log_path,
    metadata,
    remove,
    write_checkpoint,
    write_commit,
    write_log,
)
from tests.support.metered_store import MeteredStore


def refuse_warning(message: str) -> None:
    raise AssertionError(message)


def read(root: Path, version: int | None = None) -> SmallLog | None:
    store = open_store(str(root))
    return read_small_log(ReadBefore(store), list_log(store), version)


def start(root: Path, **properties: str) -> None:
    write_commit(root, 0, info("CREATE TABLE"), PROTOCOL, metadata("p", **properties))


DOMAIN: Action = {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}}
ENDED: Action = {"domainMetadata": {"domain": "d", "configuration": "", "removed": True}}

PLAIN: dict[str, Sequence[Sequence[Action]]] = {
    "no files": [[info()]],
    "an add": [[add("p=a/f-1.parquet", 7)]],
    "several commits": [[add("a", 1), add("b", 2)], [add("c", 4)], [info()]],
    "removed": [[add("a", 1), add("b", 2)], [remove("a")]],
    "removed and added": [[add("a", 1)], [remove("a")], [add("a", 9)]],
    "both in one commit": [[add("a", 1)], [add("a", 5), remove("a")]],
    "the add last": [[add("a", 1)], [remove("a"), add("a", 5)]],
    "only removed": [[remove("a")]],
    "no size": [[{"add": {"path": "a", "partitionValues": {}, "dataChange": True}}]],
    "null size": [[add("a", partitionValues={"p": None}, stats=None, tags=None)]],
    "negative size": [[add("a", -5), add("b", 3)]],
    "another member": [[add("a", 5, future={"x": 1.5})]],
    "tags": [[add("a", 5, tags={"k": "v"})]],
    "row ids": [[add("a", 5, baseRowId=0, defaultRowCommitVersion=1)]],
    "not ASCII": [[add("a", 5, tags={"k": "é"})]],
    "txn": [[{"txn": {"appId": "x", "version": 3}}, add("a", 5)]],
    "domain": [[DOMAIN, add("a", 5)]],
    "ended domain": [[DOMAIN], [ENDED]],
    "new metadata": [[add("a")], [{"metaData": {**metadata()["metaData"], "name": "n"}}]],
    "change file": [[add("a"), {"cdc": {"path": "c", "partitionValues": {}, "size": 1}}]],
}


@pytest.mark.parametrize("commits", PLAIN.values(), ids=PLAIN.keys())
def test_plain_logs_are_read_as_by_the_whole_reader(
    tmp_path: Path, commits: Sequence[Sequence[Action]]
) -> None:
    start(tmp_path)
    for version, actions in enumerate(commits, 1):
        text = "".join(json.dumps(action, ensure_ascii=False) + "\n" for action in actions)
        write_commit(tmp_path, version, text=text)
    found = read(tmp_path)
    assert found is not None
    whole = load_snapshot(open_store(str(tmp_path)), warn=refuse_warning)
    sizes = whole.files["size_bytes"].fill_null(0).to_pylist()
    assert sorted(found.sizes) == sorted(max(size, 0) for size in sizes)
    assert (found.version, found.protocol, found.metadata) == (
        whole.version,
        whole.protocol,
        whole.metadata,
    )
    assert found.domains == whole.domains
    assert found.segment == whole.segment


def test_an_older_version_has_the_files_of_its_commits(tmp_path: Path) -> None:
    write_log(tmp_path, 5)
    found = read(tmp_path, 2)
    assert found is not None
    assert (found.version, len(found.sizes)) == (2, 2)


def line(text: str) -> str:
    return text + "\n"


ADD = json.dumps(add("a"))
OTHER = {
    "empty": "",
    "blank": "\n \n",
    "CRLF": ADD + "\r\n",
    "not JSON": line(ADD[:-1]),
    "two objects": line(ADD + ADD),
    "not an object": line("[]"),
    "null": line("null"),
    "two actions": line(ADD[:-1] + ', "commitInfo": {}}'),
    "a null beside it": line(ADD[:-1] + ', "remove": null}'),
    "unknown action": line('{"future": {}}'),
    "sidecar": line('{"sidecar": {"path": "x"}}'),
    "no action": line("{}"),
    "text as action": line('{"add": "x"}'),
    "null as action": line('{"add": null}'),
    "no path": line('{"add": {"size": 1}}'),
    "null path": line('{"add": {"path": null, "size": 1}}'),
    "member twice": line('{"add": {"path": "a", "path": "b", "size": 1}}'),
    "text as size": line('{"add": {"path": "a", "size": "1"}}'),
    "fraction as size": line('{"add": {"path": "a", "size": 1.0}}'),
    "flag as size": line('{"add": {"path": "a", "size": true}}'),
    "large size": line('{"add": {"path": "a", "size": 9223372036854775808}}'),
    "number as flag": line('{"add": {"path": "a", "dataChange": 1}}'),
    "list as map": line('{"add": {"path": "a", "partitionValues": []}}'),
    "number in map": line('{"add": {"path": "a", "partitionValues": {"p": 1}}}'),
    "object as stats": line('{"add": {"path": "a", "stats": {}}}'),
    "deletion vector": line('{"add": {"path": "a", "deletionVector": {"storageType": "u"}}}'),
    "not a number": line('{"commitInfo": {"x": NaN}}'),
    "half a pair": line('{"add": {"path": "a", "stats": "\\ud800"}}'),
    "surrogate bytes": line('{"add": {"path": "a", "stats": "\ud800"}}'),
    "deep": line('{"commitInfo": ' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}"),
    "malformed protocol": line('{"protocol": {"minReaderVersion": "x"}}'),
    "txn without id": line('{"txn": {"version": 1}}'),
    "schema that is needed": line(
        '{"metaData": {"id": "i", "schemaString": "{", "partitionColumns": ["p"]}}'
    ),
}
PATHS = (
    *("./a", "a/./b", "a/../b", "..", ".", ".a", "a//b", "/a", "file:/a", "s3://b/a", "a:b"),
    *("a%20b", "a b", "é", "a?b", "a#b", "", "a/", "a\\b", "a+b", "a\nb"),
)
OTHER |= {f"path {path!r}": line(json.dumps(add(path), ensure_ascii=False)) for path in PATHS}


@pytest.mark.parametrize("text", OTHER.values(), ids=OTHER.keys())
def test_other_logs_are_left_to_the_whole_reader(tmp_path: Path, text: str) -> None:
    start(tmp_path)
    write_commit(tmp_path, 1, text=text)
    assert read(tmp_path) is None
    plain = open_store(str(tmp_path))
    try:
        expected = load_snapshot(plain, warn=refuse_warning).num_files
    except DeltactlError as error:
        with pytest.raises(type(error)) as raised:
            load_detail(plain, refuse_warning)
        assert raised.value.message == error.message
    else:
        assert load_detail(plain, refuse_warning).sizes.num_files == expected


def test_what_is_not_a_short_log(tmp_path: Path) -> None:
    write_log(tmp_path / "checkpoint", 3)
    write_checkpoint(tmp_path / "checkpoint", 2)
    assert read(tmp_path / "checkpoint") is None
    assert read(tmp_path / "checkpoint", 1) is not None

    write_log(tmp_path / "gap", 4)
    log_path(tmp_path / "gap", 2).unlink()
    assert read(tmp_path / "gap") is None

    write_commit(tmp_path / "no protocol", 0, metadata())
    assert read(tmp_path / "no protocol") is None

    write_log(tmp_path / "many", 101)
    assert read(tmp_path / "many") is None
    assert read(tmp_path / "many", 99) is not None

    start(tmp_path / "large")
    write_commit(tmp_path / "large", 1, info(note="x" * (512 << 10)))
    assert read(tmp_path / "large") is None


def test_each_commit_is_read_once(tmp_path: Path) -> None:
    start(tmp_path, **ict_properties())
    write_commit(tmp_path, 1, info(inCommitTimestamp=START_MS + 5), add("a"))
    write_commit(tmp_path, 2, info(inCommitTimestamp=START_MS + 9), add("b%20c"))
    for version in (1, 2):
        store = MeteredStore(open_store(str(tmp_path)))
        report = load_detail(store, refuse_warning, version)
        assert report.timestamp_ms == START_MS + (5 if version == 1 else 9)
        assert store.usage.reads == version + 1


def test_the_command_does_not_load_arrow(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    program = (
        "import sys; from deltactl.cli.app import run\n"
        f"code = run(['describe-detail', {str(tmp_path)!r}])\n"
        "print(code, sorted({'pyarrow', 'numpy'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stderr.endswith("0 []\n")
    assert "2 files" in done.stdout
