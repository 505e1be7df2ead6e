"""Adds that are cut out of their lines are those that the JSON readers read, errors included."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.errors import CorruptLogError
from deltactl.log import replay as replay_module
from deltactl.log.commits import alike_lines, cut_values, file_rows
from deltactl.log.commits import parser as parser_module
from deltactl.log.commits.alike_lines import unescape_stats
from deltactl.log.commits.file_rows import HeldRows, StoredRows
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.parser import CommitParser, ParsedActions
from deltactl.log.free_memory import release_free_memory
from deltactl.log.replay import Tail, replay_tail
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from tests.support.stores import MemoryStore

STATS = '{"numRecords":3,"minValues":{"a":"x"},"maxValues":{"a":"é"},"nullCount":{"a":0}}'


def add(path: str = "p=1/part-0.parquet", **members: Any) -> dict[str, Any]:
    first = {"path": path, "partitionValues": {"p": "1"}, "size": 12, "modificationTime": 34}
    return {"add": {**first, "dataChange": True, "stats": STATS, **members}}


def encode(action: dict[str, Any]) -> bytes:
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False).encode()


GOOD = encode(add())
BEFORE_STATS = GOOD[: GOOD.index(b"{\\")]


def parse(content: bytes, keys: tuple[str, ...] = ("p",)) -> list[ParsedActions]:
    with patch.object(parser_module, "_LEAST_CUT_LINES", 1):
        return list(CommitParser(keys).parse([CommitBytes("0.json", content)]))


def outcome(content: bytes, keys: tuple[str, ...] = ("p",)) -> list[dict[str, Any]] | str:
    """The rows, or the error."""
    try:
        return [row for part in parse(content, keys) for row in part.adds.to_pylist()]
    except CorruptLogError as error:
        return error.message


def uncut(content: bytes, keys: tuple[str, ...] = ("p",)) -> list[dict[str, Any]] | str:
    with patch.object(parser_module, "cut_adds", lambda *_: None):
        return outcome(content, keys)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"size": 0, "modificationTime": 9_999_999_999_999_999},
        {"size": 123_456_789, "modificationTime": 12_345_678},
        {"dataChange": False},
        {"partitionValues": {"p": ""}},
        {"partitionValues": {"p": "a value that is longer than twelve bytes"}},
        {"stats": ""},
        {"stats": STATS * 3},
        {"path": "p=1/%20é"},
    ],
)
def test_values_are_those_of_the_lines(members: dict[str, Any]) -> None:
    content = b"\n".join([b'{"commitInfo":{}}', GOOD, encode(add(**members)), GOOD])
    (part,) = parse(content)
    assert part.has_escaped_stats
    assert outcome(content) == uncut(content)
    assert part.adds["stats"].to_pylist()[1] == add(**members)["add"]["stats"]


NULLS = ("tags", "deletionVector", "baseRowId", "defaultRowCommitVersion", "clusteringProvider")


@pytest.mark.parametrize("names", [NULLS, *((name,) for name in NULLS)])
def test_nulls_of_optional_members_are_part_of_the_text_between_values(
    names: tuple[str, ...],
) -> None:
    nulls: dict[str, Any] = dict.fromkeys(names)
    content = b"\n".join(encode(add(size=size, **nulls)) for size in (1, 22, 333))
    (part,) = parse(content)
    assert part.has_escaped_stats
    assert outcome(content) == uncut(content)


def test_a_value_where_the_first_line_has_null_is_read() -> None:
    nulls: dict[str, Any] = dict.fromkeys(NULLS)
    other = encode(add(**nulls | {"baseRowId": 7, "clusteringProvider": "x"}))
    content = b"\n".join([encode(add(**nulls)), other])
    assert outcome(content) == uncut(content)
    rows = outcome(content)
    assert isinstance(rows, list)
    assert [row["base_row_id"] for row in rows] == [None, 7]


@pytest.mark.parametrize(
    "end",
    [
        b'"tags":null,"tags":{"a":"b"}',
        b'"tags":{"a":"b"},"tags":null',
        b'"baseRowId":null,"baseRowId":5',
        b'"baseRowId":5,"baseRowId":null',
        b'"clusteringProvider":null,"clustering\\u0050rovider":"x"',
    ],
)
def test_a_member_that_is_null_and_twice_is_read_as_json_reads_it(end: bytes) -> None:
    line = GOOD.replace(b'"dataChange"', end + b',"dataChange"')
    content = b"\n".join([line, line])
    assert outcome(content) == uncut(content)


def test_the_last_value_of_the_last_line_may_be_short() -> None:
    for text in ("", "{", "{}", '""', "{    }", "{        }"):
        content = b"\n".join([GOOD, encode(add(stats=text))])
        assert outcome(content) == uncut(content)
        lines = [encode(add(clusteringProvider="long enough to be cut", size=1))]
        lines.append(encode(add(clusteringProvider=text.strip('"'), size=1)))
        (part,) = parse(b"\n".join(lines))
        assert part.has_escaped_stats
        assert part.adds["clustering_provider"].to_pylist()[1] == text.strip('"')


@pytest.mark.parametrize(
    "line",
    [
        encode(add(size=-1)),
        encode(add(size=12_345_678_901_234_567)),
        encode(add(size=None)),
        encode(add(size="1")),
        encode(add(dataChange=1)),
        encode(add(dataChange=None)),
        encode(add(tags={})),
        encode(add(tags={"a": "b"})),
        encode(add(unknown=1)),
        encode(add(stats=None)),
        encode(add(stats='{"minValues":{"a":"\\""}}')),
        encode(add(stats="{\t}")),
        encode(add(stats='"')),
        encode(add(path='a"b')),
        encode(add(path="a\\b")),
        encode(add(partitionValues={"p": None})),
        encode(add(partitionValues={"q": "1"})),
        encode(add(partitionValues={"p": "1", "q": "1"})),
        encode(add(partitionValues={})),
        encode({"add": {"path": "a"}}),
        encode({"add": {"size": 1}}),
        encode({"add": {}}),
        encode({"add": ["path"]}),
        encode({"add": None}),
        encode({**add(), "remove": {"path": "b"}}),
        encode({**add(), "txn": {"appId": "a", "version": 1}}),
        encode({**add(), "commitInfo": {}}),
        encode({**add(), "remove": None}),
        encode({**add(), "somethingNew": {}}),
        encode({"add": add()["add"], "size": 1}),
        encode(add(partitionValues=["p"])),
        encode(add(partitionValues=None)),
        encode(add(partitionValues={"p": 1})),
        encode(add(stats={"numRecords": 1})),
        encode({"add": {**add()["add"], "path": 1}}),
        encode(add(deletionVector={})),
        encode(add(clusteringProvider="a\\u0062")),
        GOOD.replace(b'"path"', b'"name"'),
        GOOD.replace(b'{"path"', b'["path"'),
        GOOD.replace(b'{"path"', b'{"add":{"path"'),
        GOOD.replace(b":12,", b":012,"),
        GOOD.replace(b":12,", b":1.0,"),
        GOOD.replace(b":12,", b":1:,"),
        GOOD.replace(b":12,", b":,"),
        GOOD.replace(b":12,", b": 12,"),
        GOOD.replace(b":true", b":truefalse"),
        GOOD.replace(b":true", b":"),
        GOOD.replace(b":true", b":falsefalse"),
        GOOD.replace(b":true", b":trues"),
        GOOD.replace(b"part-0", b"part\x01"),
        GOOD.replace(b"part-0", b"part\x1f"),
        GOOD.replace(b'3,\\"', b"3,\\u0022"),
        GOOD.replace(b'"{\\"', b'"\\\\"'),
        GOOD.replace(b'"{\\"', b'""'),
        GOOD.replace(b'"{\\"', b'"{"'),
        GOOD.replace(b'0}}"}}', b'0}}\\"}}'),
        GOOD.replace(b'"path"', b'"path":"x","path"'),
        GOOD.replace(b'"size":12,', b"").replace(b'"stats"', b'"size":12,"stats"'),
        BEFORE_STATS + b"}}",
        BEFORE_STATS + b'a\\"}}\n' + BEFORE_STATS + b'"b"}}',
        GOOD[:-1],
        GOOD[:40],
        GOOD + b"\r",
        GOOD + GOOD,
        GOOD + b'\n{"add":{}}',
        GOOD + b"\nnull",
    ],
)
@pytest.mark.parametrize("place", ["first", "last", "all"])
def test_other_lines_are_left_to_the_json_readers(line: bytes, place: str) -> None:
    lines = {"first": [line, GOOD], "last": [GOOD, line], "all": [line, line]}[place]
    content = b"\n".join(lines)
    assert outcome(content) == uncut(content)


@pytest.mark.parametrize(
    "again",
    [
        b'"path":"v2"',
        b'"path":"v\\u0032"',
        b'"p\\u0061th":"v2"',
        b'"s\\u0069ze":4',
        b'"dataChang\\u0065":true',
        b'"dataChang\\u0065":false',
        b'"partitionV\\u0061lues":{"p":"v\\u0033"}',
    ],
)
def test_the_last_of_equal_members_counts(again: bytes) -> None:
    # v2, v3, 4 and true are the first other values that the places are tried with.
    lines = [encode(add(f"{number}")) for number in range(3)]
    last = b"\n".join(line[:-2] + b"," + again + b"}}" for line in lines)
    assert outcome(last) == uncut(last)
    first = b"\n".join(line.replace(b'{"path"', b"{" + again + b',"path"') for line in lines)
    assert outcome(first) == uncut(first)


def test_long_values_of_the_first_line_need_little_memory() -> None:
    lines = b"\n".join([encode(add("a" * (1 << 20), stats='"' * (1 << 18)))] * 2)
    parse(GOOD)
    tracemalloc.start()
    try:
        (part,) = parse(lines)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert part.has_escaped_stats
    assert peak < 20 * len(lines)


@pytest.mark.parametrize("values", [{}, {"q": "1"}, {"p": "1", "q": "2"}, {"q": "2", "p": "1"}])
@pytest.mark.parametrize("keys", [(), ("p",), ("p", "q")])
def test_lines_may_have_other_partition_keys(values: dict[str, str], keys: tuple[str, ...]) -> None:
    content = b"\n".join([encode(add(partitionValues=values))] * 3)
    assert outcome(content, keys) == uncut(content, keys)


TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20)
SIZES = st.integers(0, 10**16 - 1)


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "path": TEXTS.map(lambda text: text.replace("%", "")),
                "partitionValues": st.fixed_dictionaries({"p": TEXTS, "q": TEXTS}),
                "size": SIZES,
                "dataChange": st.booleans(),
                "stats": TEXTS.map(lambda text: json.dumps({"minValues": {"a": text}})),
            }
        ),
        min_size=1,
        max_size=40,
    )
)
def test_any_values_are_those_of_the_lines(members: list[dict[str, Any]]) -> None:
    content = b"\n".join(encode({"add": it}) for it in members)
    assert outcome(content, ("p", "q")) == uncut(content, ("p", "q"))


@given(st.data())
def test_changed_bytes_change_neither_rows_nor_errors(data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(GOOD)))
    last = data.draw(st.integers(first, min(first + 3, len(GOOD))))
    text = data.draw(st.one_of(st.sampled_from([b"", b'"', b"\\", b",", b"}}", b"0"]), st.binary()))
    changed = GOOD[:first] + text + GOOD[last:]
    content = b"\n".join([GOOD, changed, GOOD])
    assert outcome(content) == uncut(content)


@pytest.mark.parametrize("member", ["path", "stats"])
@pytest.mark.parametrize("size", [1, 2, 5, 1 << 18])
def test_each_block_of_the_values_is_checked(
    member: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_values, "_BLOCK_BYTES", size)
    texts = ["a" * (size + number) for number in range(3)]
    lines = [encode(add(**{member: text})) for text in texts]
    (part,) = parse(b"\n".join(lines))
    assert part.has_escaped_stats
    assert part.adds[member].to_pylist() == texts
    for bad in (b"\x01", b"\\n", b'\\"', b"\\\\", b"\\u0022"):
        for place in (0, 1, 2, size - 1, size):
            text = texts[1].encode()
            changed = lines[1].replace(text, text[:place] + bad + text[place:])
            content = b"\n".join([lines[0], changed, lines[2]])
            assert outcome(content) == uncut(content)


def test_texts_of_every_length_are_cut() -> None:
    texts = ["abcdefghijklmnopqrstuvwxyz"[:number] for number in range(1, 27)]
    lines = [encode(add(text, partitionValues={"p": text})) for text in texts]
    (part,) = parse(b"\n".join(lines))
    assert part.has_escaped_stats
    assert part.adds["path"].to_pylist() == texts
    assert part.adds["partition_values"].to_pylist() == [[("p", text)] for text in texts]


def test_values_of_many_lengths_are_left_to_the_json_readers() -> None:
    values = [{"p": "a" * number, "q": "b"} for number in range(40)]
    content = b"\n".join(encode(add(partitionValues=it)) for it in values)
    assert not parse(content, ("p", "q"))[0].has_escaped_stats
    assert outcome(content, ("p", "q")) == uncut(content, ("p", "q"))


def test_stats_of_an_unpartitioned_table_are_cut() -> None:
    lines = [encode(add(f"{number}", partitionValues={})) for number in range(3)]
    (part,) = parse(b"\n".join(lines), ())
    assert part.has_escaped_stats
    assert part.adds["partition_values"].to_pylist() == [[]] * 3


def replay(name: str, contents: list[bytes]) -> Tail:
    """Return the tail of commits, each of which is parsed alone."""
    store = MemoryStore(f"memory://alike/{name}")
    for version, content in enumerate(contents):
        store.put(f"_delta_log/{version:020}.json", content)
    with (
        patch.object(parser_module, "_LEAST_CUT_LINES", 1),
        patch.object(parser_module, "_CHUNK_BYTES", 1),
    ):
        return replay_tail(store, list(store.list_from("_delta_log")), ("p",))


def test_stats_are_unescaped_when_they_are_read() -> None:
    good, other = encode(add("a")) + b"\n", encode(add("b", tags={"t": "1"})) + b"\n"
    for contents, is_escaped in (([good, good], True), ([good, other], False)):
        tail = replay(str(is_escaped), contents)
        (escaped,) = (rows for rows in [tail.add_rows] if isinstance(rows, HeldRows))
        assert escaped.has_escaped_stats is is_escaped
        (sizes,) = tail.add_rows.batches(["size_bytes"])
        assert escaped.has_escaped_stats is is_escaped
        (stats,) = tail.add_rows.batches(["stats"])
        assert set(stats["stats"].to_pylist()) == {STATS}
        assert not escaped.has_escaped_stats
        assert sizes.num_rows == stats.num_rows == tail.adds.num_rows == len(set(contents))
        assert tail.adds.schema == ADD_SCHEMA


def test_reading_stats_after_an_error_gives_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = parse(b"\n".join([GOOD] * 3))
    stats = part.raw_adds["stats"].combine_chunks()
    table = part.raw_adds.set_column(
        part.raw_adds.schema.get_field_index("stats"),
        "stats",
        pa.chunked_array([stats.slice(0, 1), stats.slice(1, 2)]),
    )
    rows = HeldRows(table, has_escaped_stats=True)
    calls: list[pa.Array] = []

    def fail_once(texts: pa.Array) -> pa.Array:
        calls.append(texts)
        if len(calls) == 2:
            raise MemoryError
        return alike_lines.unescape_texts(texts)

    monkeypatch.setattr(file_rows, "unescape_texts", fail_once)
    with pytest.raises(MemoryError):
        _ = rows.table
    assert rows.table["stats"].to_pylist() == [STATS] * 3


def test_unescaping_again_changes_nothing() -> None:
    (part,) = parse(b"\n".join([GOOD] * 3))
    rows = pa.concat_tables([part.raw_adds, part.raw_adds.slice(1, 1)])
    assert unescape_stats(rows)["stats"].to_pylist() == [STATS] * 4
    assert unescape_stats(unescape_stats(rows)).equals(unescape_stats(rows))


def test_texts_that_are_empty_or_null_have_no_escapes() -> None:
    for texts in (pa.array([], pa.string()), pa.nulls(0, pa.string()), pa.nulls(2, pa.string())):
        assert alike_lines.unescape_texts(texts).equals(texts)
    assert alike_lines.unescape_texts(pa.array(["", ""])).to_pylist() == ["", ""]


def test_parts_without_adds_leave_stats_escaped() -> None:
    remove = encode({"remove": {"path": "gone", "deletionTimestamp": 1}}) + b"\n"
    tail = replay("none", [remove, GOOD, remove])
    assert isinstance(tail.add_rows, HeldRows)
    assert tail.add_rows.has_escaped_stats
    assert tail.adds["stats"].to_pylist() == [STATS]


def test_stats_of_both_readings_of_paths_are_unescaped() -> None:
    paths = ["a/x", "a/./x", "b"]
    tail = replay("paths", [encode(add(path)) for path in paths])
    assert tail.by_text is not None
    for found, num_files in ((tail, 2), (tail.by_text, 3)):
        assert isinstance(found.add_rows, HeldRows)
        assert found.add_rows.has_escaped_stats
        assert found.adds["stats"].to_pylist() == [STATS] * num_files


def test_stats_on_disk_are_unescaped(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [encode(add(f"{number}")) for number in range(4)]
    for held_bytes in (0, 600):
        monkeypatch.setattr(replay_module, "_HELD_BYTES", held_bytes)
        tail = replay(f"disk{held_bytes}", contents)
        assert isinstance(tail.add_rows, StoredRows)
        assert tail.adds["stats"].to_pylist() == [STATS] * 4


def test_memory_is_released_while_many_parts_are_unescaped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released: list[None] = []

    def note() -> None:
        release_free_memory()
        released.append(None)

    monkeypatch.setattr(file_rows, "release_free_memory", note)
    (part,) = parse(b"\n".join([GOOD] * 40))
    batches = part.raw_adds.to_batches(max_chunksize=1)
    rows = HeldRows(pa.Table.from_batches(batches), has_escaped_stats=True)
    assert rows.table["stats"].to_pylist() == [STATS] * 40
    assert len(released) == 5
