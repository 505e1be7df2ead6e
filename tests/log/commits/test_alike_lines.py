"""Adds that are cut out of their lines are those that the JSON readers read, errors included."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.log.commits import cut_values
from tests.log.commits.alike_adds import (
    BEFORE_STATS,
    GOOD,
    STATS,
    add,
    encode,
    outcome,
    parse,
    uncut,
)


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
