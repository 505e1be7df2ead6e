"""Statistics of adds that were cut out of their lines: unescaped when they are read."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest

from deltactl.log import replay as replay_module
from deltactl.log.commits import alike_lines, file_rows
from deltactl.log.commits import parser as parser_module
from deltactl.log.commits.alike_lines import unescape_stats
from deltactl.log.commits.file_rows import HeldRows, StoredRows
from deltactl.log.replay import Tail, replay_tail
from deltactl.protocol.arrow_schemas import ADD_SCHEMA
from tests.log.commits.alike_adds import (
    GOOD,
    STATS,
    add,
    encode,
    parse,
)
from tests.support.stores import MemoryStore


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
