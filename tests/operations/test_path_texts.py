"""Paths are compared by their texts, and vacuum keeps what any reader takes for live."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl import OptimizeOptions, Table, VacuumOptions
from deltactl.operations.optimize_plan import TWO_TEXTS
from deltactl.protocol.paths import normalize_paths
from tests.support.path_texts import READINGS, TextTable

# Texts of the same two files, and two that are others.
TEXTS = (
    "p=é/a.parquet",
    "p=%C3%A9/a.parquet",
    "p=%c3%a9/a.parquet",
    "p=%C3%A9/%61.parquet",
    "./p=é/a.parquet",
    "p=é//a.parquet",
    "p=é/./a.parquet",
    "p=%C3%A9/b%20c.parquet",
    "p=é/b%20c.parquet",
    "p=x/a.parquet",
)


def vacuum(table: TextTable, mode: Literal["full", "lite"]) -> set[str]:
    """Give the names that a vacuum without retention plans to remove."""
    options = VacuumOptions(mode=mode, retain_ms=0, force_retention=True, max_orphan_fraction=1.0)
    plan = Table(str(table.root)).vacuum(options, dry_run=True).plan
    return set(plan.files["path"].to_pylist())


actions = st.lists(st.tuples(st.booleans(), st.sampled_from(TEXTS)), min_size=1, max_size=12)


@settings(max_examples=60)
@given(actions, st.integers(0, 12), st.booleans())
def test_any_history_of_texts(
    history: list[tuple[bool, str]], checkpoint_after: int, lite: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = TextTable(Path(folder))
        for place, (is_add, text) in enumerate(history):
            (table.add if is_add else table.remove)(text)
            if place == checkpoint_after:
                Table(folder).checkpoint()
        files = Table(folder).snapshot().files
        assert sorted(files["encoded_path"].to_pylist()) == table.live(READINGS["normalised"])
        planned = vacuum(table, "lite" if lite else "full")
        assert not planned & table.protected()
        if not lite:
            assert planned == table.stored() - table.protected()


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("p=é/f", "p=é/f"),
        ("./p=é/f", "p=é/f"),
        ("p=é//f", "p=é/f"),
        ("a/./b/../c", "a/c"),
        ("%2E/f", "%2E/f"),
        ("../f", "../f"),
        ("s3://bucket//a/./b", "s3://bucket/a/b"),
    ],
)
def test_normalisation_leaves_escapes_alone(text: str, normal: str) -> None:
    import pyarrow as pa

    assert normalize_paths(pa.array([text])).to_pylist() == [normal]


def test_optimize_leaves_out_what_the_log_names_by_two_texts(tmp_path: Path) -> None:
    table = TextTable(tmp_path)
    table.add("p=é/a.parquet", (1,))
    table.remove("p=%C3%A9/a.parquet")
    table.add("p=é/b.parquet", (2,))
    table.add("p=%C3%A9/b.parquet", (2,))
    table.add("p=%C3%A9/c.parquet", (3,))
    table.add("p=%C3%A9/d.parquet", (4,))
    warnings: list[str] = []
    report = Table(str(tmp_path), warn=warnings.append).optimize(OptimizeOptions())
    assert report.plan.left_alone[TWO_TEXTS] == 3
    assert "deltactl check" in warnings[0]
    rows = Table(str(tmp_path)).scan().read_all()["id"].to_pylist()
    assert sorted(rows) == [1, 2, 2, 3, 4]
    assert report.files_removed == 2


def test_the_writer_escapes_what_is_not_ascii(tmp_path: Path) -> None:
    """A delete of delta-rs removes such a file by the same text."""
    table = TextTable(tmp_path)
    table.add("p=%C3%A9/a.parquet", (1,))
    table.add("p=%C3%A9/b.parquet", (2,))
    Table(str(tmp_path)).optimize(OptimizeOptions())
    (text,) = Table(str(tmp_path)).snapshot().files["encoded_path"].to_pylist()
    assert text.isascii()
    assert text.startswith("p=")
