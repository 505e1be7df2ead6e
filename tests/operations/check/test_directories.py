"""The directory of a file names another partition than the log."""

import json
import re
from pathlib import Path

import pytest

from deltactl.errors import ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.directories import find_moved
from deltactl.storage.local.store import LocalStore
from tests.support.checkpoints import new_table
from tests.support.damage import check
from tests.support.table_builder import Column, commit_path

NULL = "__HIVE_DEFAULT_PARTITION__"


def notes(kind: str, directory: str, value: str | None, **options: str) -> list[str]:
    """Check a table with one file in this directory."""
    builder = new_table(Column("id"), Column("p q", kind), partition_by=["p q"], **options)
    builder.append([{"id": 1, "p q": None}], name="NAME/x.parquet")
    name = commit_path(builder.version)
    text = builder.store.read(name).decode().replace("NAME", f"y/p q={directory}")
    text = re.sub(
        r'("partitionValues":\s*\{"[^"]*":\s*)null', lambda it: it[1] + json.dumps(value), text
    )
    builder.store.put(name, text.encode())
    return [it for it in check(builder.store).notes if it.startswith("the directory")]


@pytest.mark.parametrize(
    ("kind", "directory", "value"),
    [
        ("string", "2024-01-01", "2024-01-03"),
        ("string", "a%253Ab", "a:c"),
        ("string", NULL, "a"),
        ("string", "a", None),
        ("integer", "1", "2"),
        ("date", "2024-01-01", "2024-01-02"),
        ("timestamp_ntz", "2024-01-01 00%253A00%253A00", "2024-01-01 00:00:01"),
    ],
)
def test_another_value_is_a_note(kind: str, directory: str, value: str | None) -> None:
    (note,) = notes(kind, directory, value)
    assert "for 1 live file, such as" in note
    assert f"with 'p q' {value or NULL!r}. " in note


@pytest.mark.parametrize(
    ("kind", "directory", "value"),
    [
        ("string", "a%253Ab", "a:b"),
        ("string", "a:b", "a:b"),
        ("string", "a+b", "a b"),
        ("string", "a/b", "a/b"),
        ("string", NULL, None),
        ("string", NULL, ""),
        ("string", "null", None),
        ("integer", "01", "1"),
        ("integer", "one", "1"),
        ("double", "1", "1.0"),
        ("decimal(5,2)", "1.5", "1.50"),
        ("date", "2024-1-1", "2024-01-01"),
        ("timestamp_ntz", "2024-01-01T00%253A00", "2024-01-01 00:00:00"),
        ("timestamp", "2024-01-01 02%253A00%253A00", "2024-01-01T00:00:00Z"),
        ("binary", "a", "\\u0062"),
    ],
)
def test_other_forms_of_a_value_are_none(kind: str, directory: str, value: str | None) -> None:
    assert notes(kind, directory, value) == []


def test_directories_of_tables_with_column_mapping_are_not_compared() -> None:
    assert notes("string", "a", "b", mapping="name") == []


@pytest.mark.corpus
def test_no_table_of_other_writers_has_the_note(corpus: Path) -> None:
    checked = 0
    for table in json.loads((corpus / "manifest.json").read_text("utf-8")):
        if table["expect"]["outcome"] != "ok":
            continue
        log = DeltaLog(LocalStore(str(corpus / table["path"])), ignore_warning)
        snapshot = log.read_only().snapshot()
        for files in snapshot.file_batches(("path", "partition_values")):
            assert [*find_moved(files, snapshot.metadata)] == [], table["name"]
        checked += bool(snapshot.metadata.partition_columns)
    assert checked >= 10
