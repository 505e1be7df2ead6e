"""Errors name the file and the line; what is no error is read, however it is written."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from deltactl.errors import CorruptLogError, StorageError
from deltactl.log.commits import parser as parser_module
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parser import CommitParser, ParsedActions
from tests.support.table_builder import encode_lines

ADD = {"path": "a", "partitionValues": {}, "size": 1, "modificationTime": 2, "dataChange": True}
GOOD = encode_lines([{"add": {**ADD, "path": f"p{i}"}} for i in range(3)])


def parse(*contents: bytes, keys: tuple[str, ...] = ()) -> list[ParsedActions]:
    files = [CommitBytes(f"{number}.json", data) for number, data in enumerate(contents)]
    return list(CommitParser(keys).parse(files))


def adds(*contents: bytes, keys: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    return [row for part in parse(*contents, keys=keys) for row in part.adds.to_pylist()]


@pytest.mark.parametrize(
    ("line", "place"),
    [
        (b'{"add":', "line 2"),
        (b'{"commitInfo":{}}{"txn":{"appId":"a","version":1}}', "line 2"),
        (b"not json", "line 2"),
        (b"[1]", "line 2"),
        (b'{"add":[]}', "line 2"),
        (b'{"add":{"path":"x","size":"big"}}', "line 2"),
        (b'{"add":{"path":"x","size":1.5}}', "line 2"),
        (b'{"add":{"path":"x","dataChange":"yes"}}', "line 2"),
        (b'{"add":{"path":"x","partitionValues":7}}', "line 2"),
        (b'{"metaData":{"schemaString":"{","partitionColumns":["p"]}}', ""),
        (b'{"add":{"size":1}}', ""),
        (b'{"add":{"path":"%ff"}}', ""),
        (b'{"protocol":{}}', ""),
        (b'{"txn":{"appId":"a"}}', ""),
        (b'{"txn":"a"}', "line 2"),
        (b'{"protocol":[1]}', "line 2"),
        pytest.param(  # Python 3.13 parses some thousand levels
            b'{"txn":{"appId":"a","version":1,"x":' + b"[" * 200_000 + b"]" * 200_000 + b"}}",
            "line 2",
            id="too deep",
        ),
        (b'{"domainMetadata":{"configuration":"x"}}', ""),
    ],
)
def test_errors_name_file_and_line(line: bytes, place: str) -> None:
    broken = b'{"commitInfo":{}}\n' + line + b"\n"
    with pytest.raises(CorruptLogError) as caught:
        parse(GOOD, broken, GOOD)
    assert caught.value.message.startswith("1.json")
    assert place in caught.value.message


TXN = {"appId": "a", "version": 1}
CDC = {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False}
# Tags that differ from line to line are read by the slower of the two ways to read columns.
UNEVEN = encode_lines([{"add": {**ADD, "path": f"t{i}", "tags": {f"t{i}": "x"}}} for i in range(2)])


@pytest.mark.parametrize("before", [GOOD, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize(
    "line",
    [
        {"add": ADD, "remove": {"path": "b"}},
        {"remove": {"path": "b"}, "add": ADD},
        {"add": ADD, "txn": TXN},
        {"txn": TXN, "add": ADD},
        {"add": ADD, "commitInfo": {"operation": "WRITE"}},
        {"commitInfo": {}, "add": ADD},
        {"remove": {"path": "b"}, "cdc": CDC},
        {"cdc": CDC, "txn": TXN},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}, "txn": TXN},
    ],
    ids=lambda line: "+".join(line),
)
def test_a_line_with_two_actions_is_refused(line: dict[str, Any], before: bytes) -> None:
    with pytest.raises(CorruptLogError) as caught:
        parse(before, b'{"commitInfo":{}}\n' + encode_lines([line]), GOOD)
    named = ", ".join(line)
    assert caught.value.message == f"1.json: line 2 has several actions: {named}"
    assert caught.value.code == "LOG_CORRUPT"


@pytest.mark.parametrize("before", [GOOD, UNEVEN], ids=["even", "uneven"])
@pytest.mark.parametrize(
    "line",
    [
        {"add": ADD, "remove": None, "cdc": None, "commitInfo": None},
        {"remove": None, "add": ADD},
        {"add": ADD, "somethingNew": {"path": "x"}},
        {"somethingNew": {"path": "x"}, "add": ADD},
    ],
    ids=lambda line: "+".join(line),
)
def test_nulls_and_unknown_members_are_no_actions(line: dict[str, Any], before: bytes) -> None:
    skipped = encode_lines([{}, {"somethingNew": {}, "other": {}}, {"txn": None}])
    rows = adds(before, skipped + encode_lines([line]))
    assert rows[-1]["path"] == "a"
    assert len(rows) == len(adds(before)) + 1


@pytest.mark.parametrize("num_others", [0, 100], ids=["few", "many"])
@pytest.mark.parametrize("name", [b"commitInfo", b"cdc", b"somethingNew"])
@pytest.mark.parametrize("value", [b"[" * 2000 + b"]" * 2000, b"1" * 5000], ids=["deep", "long"])
def test_members_that_are_not_needed_may_have_any_value(
    value: bytes, name: bytes, num_others: int
) -> None:
    line = b'{"%s":{"a":%s}}\n' % (name, value)
    txn = encode_lines([{"txn": TXN}])
    (part,) = parse(line + txn + b'{"commitInfo":{}}\n' * num_others + GOOD)
    assert part.adds.num_rows == 3
    assert list(part.non_file_actions.txns) == ["a"]


@pytest.mark.parametrize("content", [b"", b"\n", b"  \r\n\t"])
def test_an_empty_file_is_truncated(content: bytes) -> None:
    with pytest.raises(CorruptLogError, match=r"1\.json is empty"):
        parse(GOOD, content)


def test_seq_grows_over_files_and_calls() -> None:
    parser = CommitParser()
    first = list(parser.parse([CommitBytes("0", GOOD), CommitBytes("1", GOOD)]))
    second = list(parser.parse([CommitBytes("2", GOOD)]))
    seq = [n for part in (*first, *second) for n in part.adds["seq"].to_pylist()]
    assert seq == sorted(set(seq))
    assert len(seq) == 9


def test_in_a_compacted_file_the_first_word_is_the_newest() -> None:
    (part,) = CommitParser().parse([CommitBytes("0", GOOD, newest_first=True)])
    seq = part.adds["seq"].to_pylist()
    assert seq == sorted(seq, reverse=True)


def test_a_line_longer_than_any_block() -> None:
    long = encode_lines([{"add": {**ADD, "stats": "x" * (9 << 20)}}])
    rows = adds(GOOD, long, GOOD)
    assert [len(row["stats"] or "") for row in rows] == [0, 0, 0, 9 << 20, 0, 0, 0]


def test_values_are_kept_where_no_schema_has_the_physical_name() -> None:
    metadata = {
        "id": "x",
        "partitionColumns": ["p", "q"],
        "configuration": {"delta.columnMapping.mode": "name"},
    }
    values = [{"col-1": "v", "col-2": None}, {"col-1": None, "col-2": "w"}]
    files = [{**ADD, "path": f"f{i}", "partitionValues": v} for i, v in enumerate(values)]
    lines = encode_lines([{kind: file} for kind in ("add", "remove") for file in files])
    for content in (lines, encode_lines([{"metaData": metadata}]) + lines):
        (part,) = parse(content, keys=("p", "q"))
        for found in (part.adds, part.removes):
            rows = [dict(row) for row in found["partition_values"].to_pylist()]
            assert [(row["col-1"], row["col-2"]) for row in rows] == [("v", None), (None, "w")]


def test_texts_that_look_like_times_stay_texts() -> None:
    (row,) = adds(encode_lines([{"add": {**ADD, "stats": "2024-01-01T00:00:00Z"}}]))
    assert row["stats"] == "2024-01-01T00:00:00Z"


def test_values_that_are_no_texts_become_texts() -> None:
    line = {**ADD, "partitionValues": {"p": 7, "q": True}, "tags": {"t": 1.5}}
    (row,) = adds(encode_lines([{"add": line}]), keys=("p", "q"))
    assert dict(row["partition_values"]) == {"p": "7", "q": "true"}
    assert dict(row["tags"]) == {"t": "1.5"}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("path", []),
        ("stats", {"numRecords": 1}),
        ("tags", {"t": {}}),
        ("partitionValues", {"p": ["7"]}),
        ("modificationTime", True),
        ("size", 1.5),
        ("dataChange", "true"),
    ],
)
def test_values_that_no_reader_accepts_are_errors(member: str, value: Any) -> None:
    with pytest.raises(CorruptLogError, match=r"0\.json, line 1: malformed add"):
        adds(encode_lines([{"add": {**ADD, member: value}}]), keys=("p",))


def test_numbers_beyond_what_floats_hold() -> None:
    big = 2**63 - 1
    for tags in ({}, {"tags": {"a": "b"}}):
        (row,) = adds(encode_lines([{"add": {**ADD, "size": big, "baseRowId": big, **tags}}]))
        assert row["size_bytes"] == row["base_row_id"] == big


@pytest.fixture
def one_file_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each file a chunk, so that the files after the first are parsed in threads."""
    monkeypatch.setattr(parser_module, "_CHUNK_BYTES", 1)


@pytest.mark.usefixtures("one_file_at_once")
@pytest.mark.parametrize("place", [0, 1, 4, 7])
def test_partition_keys_of_a_chunk_count_for_those_parsed_at_the_same_time(place: int) -> None:
    schema = {"type": "struct", "fields": [{"name": "q", "type": "string", "nullable": True}]}
    metadata = {"schemaString": json.dumps(schema), "partitionColumns": ["q"], "id": "x"}
    old = encode_lines([{"add": {**ADD, "partitionValues": {"p": "v"}}}])
    new = encode_lines([{"add": {**ADD, "partitionValues": {"p": "v", "q": "w"}}}])
    contents = [*[old] * place, encode_lines([{"metaData": metadata}]) + new, *[new] * 8]
    values = [dict(row["partition_values"]) for row in adds(*contents, keys=("p",))]
    assert [row.get("q") for row in values] == [None] * place + ["w"] * 9
    assert {row["p"] for row in values} == {"v"}


@pytest.mark.usefixtures("one_file_at_once")
def test_chunks_parsed_at_the_same_time_keep_their_order() -> None:
    contents = [
        encode_lines([{"add": {**ADD, "path": f"{number}-{i}"}} for i in range(50 - number)])
        for number in range(40)
    ]
    parts = parse(*contents)
    assert [part.names for part in parts] == [[f"{number}.json"] for number in range(40)]
    paths = [path for part in parts for path in part.adds["path"].to_pylist()]
    assert paths == [f"{number}-{i}" for number in range(40) for i in range(50 - number)]
    seq = [number for part in parts for number in part.adds["seq"].to_pylist()]
    assert seq == list(range(len(paths)))


@pytest.mark.usefixtures("one_file_at_once")
@pytest.mark.parametrize("broken", [0, 3, 5, 6])
def test_commits_before_one_that_is_invalid_or_cannot_be_read_are_parsed(broken: int) -> None:
    def read() -> Iterator[CommitBytes]:
        for number in range(6):
            yield CommitBytes(f"{number}.json", b"not json\n" if number == broken else GOOD)
        raise StorageError("the disk failed")

    seen: list[str] = []
    says = rf"^{broken}\.json, line 1" if broken < 6 else "the disk failed"
    with pytest.raises(CorruptLogError if broken < 6 else StorageError, match=says):
        for part in CommitParser().parse(read()):
            seen += part.names
    assert seen == [f"{number}.json" for number in range(broken)]


@pytest.mark.usefixtures("one_file_at_once")
def test_no_thread_is_left_if_the_caller_stops_early() -> None:
    before = threading.active_count()
    parts = CommitParser().parse(CommitBytes(f"{number}.json", GOOD) for number in range(20))
    assert [next(parts).names for _ in range(3)] == [["0.json"], ["1.json"], ["2.json"]]
    assert threading.active_count() > before
    parts.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
