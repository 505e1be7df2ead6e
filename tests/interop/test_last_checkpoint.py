"""What other readers do with a ``_last_checkpoint`` that is wrong, and what ``check`` says of it.

Measured with delta-rs 1.6.6 and DuckDB 1.5.5. Without a complete checkpoint of the version or a
later one, both fail. With a wrong number of parts, DuckDB fails.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltactl.log.hint import HINT_NAME
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.interop.judges import READERS, try_count
from tests.support.table_builder import Column, TableBuilder

Damage = Callable[[Path], None]


def delete_newest(path: Path) -> None:
    sorted((path / "_delta_log").glob("*.checkpoint*"))[-1].unlink()


def empty_newest(path: Path) -> None:
    sorted((path / "_delta_log").glob("*.checkpoint*"))[-1].write_bytes(b"")


def writing(text: str) -> Damage:
    def damage(path: Path) -> None:
        (path / HINT_NAME).write_text(text)

    return damage


def hinting(**members: object) -> Damage:
    def damage(path: Path) -> None:
        (path / HINT_NAME).write_text(json.dumps({"version": 3, "size": 1} | members))

    return damage


DAMAGES: dict[str, tuple[str, Damage, set[str]]] = {
    "nothing": ("classic", hinting(), set()),
    "no damage of parts": ("multipart", hinting(parts=2), set()),
    "a deleted checkpoint": ("classic", delete_newest, {"DuckDB", "delta-rs"}),
    "an empty checkpoint": ("classic", empty_newest, {"DuckDB", "delta-rs"}),
    "a lost part": ("multipart", delete_newest, {"DuckDB", "delta-rs"}),
    "a later version": ("classic", hinting(version=4), {"DuckDB", "delta-rs"}),
    "an older version": ("classic", hinting(version=1), set()),
    "too many parts": ("multipart", hinting(parts=3), {"DuckDB"}),
    "no parts": ("multipart", hinting(), {"DuckDB"}),
    "parts of one file": ("classic", hinting(parts=2), {"DuckDB"}),
    "no JSON": ("classic", writing("{"), set()),
    "an empty file": ("classic", writing(""), set()),
    "no object": ("classic", writing("null"), set()),
    "no version": ("classic", writing("{}"), set()),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_stops_a_reader_is_a_finding(tmp_path: Path, name: str) -> None:
    kind, damage, failing = DAMAGES[name]
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    for number in range(1, 5):
        builder.append([{"id": number}])
        if number == 3:
            builder.checkpoint(kind=kind)
    builder.hint(3)
    damage(tmp_path)
    assert {it for it in READERS if try_count(it, tmp_path)[0] != 4} == failing
    table = Table(str(tmp_path), warn=lambda _: None)
    found = [it for it in table.check().findings.to_pylist() if it["file"] == HINT_NAME]
    assert [row["code"] for row in found] == (["HINT_WRONG"] if failing else [])
    assert [{it for it in READERS if it in row["problem"]} for row in found] == [failing] * len(
        found
    )
    table.fix(kind="last-checkpoint")
    assert [try_count(it, tmp_path) for it in READERS] == [(4, "")] * 2
    assert not table.check().notes
