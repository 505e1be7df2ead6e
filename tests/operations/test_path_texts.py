"""Paths are compared by their texts, and vacuum keeps what any reader takes for live."""

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deltactl import OptimizeOptions, Table, VacuumOptions
from deltactl.errors import ignore_warning
from deltactl.library import convert
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.optimize.candidates import TWO_TEXTS
from deltactl.protocol.paths import ascii_directory, decode_path, encode_path, hive_escape
from deltactl.storage.local.store import LocalStore
from tests.support.path_texts import READINGS, TextTable
from tests.support.run import run_on
from tests.support.vacuum_scenes import Scene, vector_names

pytestmark = pytest.mark.thorough

# Texts of the same two files, and two that are others.
TEXTS = (
    "p=é/a.parquet", "p=%C3%A9/a.parquet", "p=%c3%a9/a.parquet", "p=%C3%A9/%61.parquet",
    "./p=é/a.parquet", "p=é//a.parquet", "p=é/./a.parquet", "p=%C3%A9/b%20c.parquet",
    "p=é/b%20c.parquet", "p=x/a.parquet",
)  # fmt: skip


Writer = Literal["deltactl", "delta-rs"]


def vacuum(table: TextTable, mode: Literal["full", "lite"]) -> set[str]:
    """Give the names that a vacuum without retention plans to remove."""
    options = VacuumOptions(mode=mode, retain_ms=0, force_retention=True, max_orphan_fraction=1.0)
    plan = Table(str(table.root), warn=ignore_warning).vacuum(options, dry_run=True).plan
    return set(plan.files["path"].to_pylist())


def write_checkpoint(folder: str, writer: str) -> None:
    if writer == "deltactl":  # a remove of a file that no commit adds is a doubt
        confirmed = partial(checkpoint_table, confirm_doubt=lambda question: True)
        run_on(LocalStore(folder), confirmed, CheckpointOptions())
    else:
        from deltalake import DeltaTable

        DeltaTable(folder).create_checkpoint()


actions = st.lists(st.tuples(st.booleans(), st.sampled_from(TEXTS)), min_size=1, max_size=12)


@settings(max_examples=60)
@given(actions, st.integers(0, 12), st.sampled_from(get_args(Writer)), st.booleans())
@example([(True, "./p=é/a.parquet"), (False, "p=é/a.parquet")], 1, "deltactl", False)
@example([(True, "./p=é/a.parquet"), (False, "p=é/a.parquet")], 0, "delta-rs", True)
def test_any_history_of_texts(
    history: list[tuple[bool, str]], checkpoint_after: int, writer: Writer, lite: bool
) -> None:
    """Delta-rs writes what it takes for live: its checkpoints hold both of "./x" and "x"."""
    with tempfile.TemporaryDirectory() as folder:
        table = TextTable(Path(folder))
        for place, (is_add, text) in enumerate(history):
            (table.add if is_add else table.remove)(text)
            if place == checkpoint_after:
                write_checkpoint(folder, writer)
        files = Table(folder).snapshot().files
        if writer == "deltactl" or checkpoint_after >= len(history):
            assert sorted(files["encoded_path"].to_pylist()) == table.live(READINGS["normalised"])
        planned = vacuum(table, "lite" if lite else "full")
        assert not planned & table.protected()
        if not lite:
            assert planned == table.stored() - table.protected()


@pytest.mark.parametrize(
    ("mode", "checkpoint_at", "oldest"),
    [
        ("full", None, 0),
        ("lite", None, 0),
        ("full", 2, 0),
        ("lite", 3, 0),
        ("full", 2, 3),  # the commit with the add is gone
        ("full", 3, 3),
    ],
)
def test_vacuum_keeps_deletion_vectors_that_a_reader_needs(
    mode: str, checkpoint_at: int | None, oldest: int
) -> None:
    """Readers on the Delta kernel return the file; Delta on Spark takes it for removed."""
    scene = Scene("deletionVectors")
    (path,) = scene.append(60)
    scene.delete_rows(50, path, 1)
    vector = scene.builder.find(path)["deletionVector"]
    remove = {"path": f"./{path}", "deletionVector": vector, "dataChange": True}
    scene.ago(40, lambda: scene.builder.commit({"remove": {**remove, "deletionTimestamp": 1}}))
    if checkpoint_at is not None:  # as a writer that compares paths as they are written
        scene.ago(40, lambda: scene.builder.checkpoint(checkpoint_at))
    scene.builder.forget_commits(oldest)
    needed = {path, *vector_names(scene, vector)}
    assert needed <= scene.names()
    assert not needed & set(scene.plan(mode=mode))
    scene.vacuum(mode=mode)
    assert needed <= scene.names()


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


def test_delta_rs_removes_new_files_by_the_text_that_is_written(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    table = TextTable(tmp_path)
    values = [*map(chr, range(1, 128)), "é", "日本", "\U0001f600", "\u3000"]
    names = [f"{ascii_directory(f'p={hive_escape(value)}')}/f.parquet" for value in values]
    texts = {encode_path(name) for name in names}
    assert {decode_path(text) for text in texts} == set(names)
    size = table.write_file("p=x/f.parquet", (1,))
    table.commit(*({"add": add_of(text, size)} for text in sorted(texts)))
    DeltaTable(str(tmp_path)).delete()
    newest = (tmp_path / "_delta_log" / f"{table.version + 1:020}.json").read_text("utf-8")
    actions = [json.loads(line) for line in newest.splitlines()]
    assert {action["remove"]["path"] for action in actions if "remove" in action} == texts


def add_of(text: str, size: int) -> dict[str, Any]:
    stats = json.dumps({"numRecords": 1})
    times = {"modificationTime": 0, "dataChange": True}
    return {"path": text, "partitionValues": {"p": "x"}, "size": size, "stats": stats, **times}


def test_optimize_writes_to_ascii_directories(tmp_path: Path) -> None:
    table = TextTable(tmp_path)
    table.add("p=é/a.parquet", (1,))
    table.add("p=é/b.parquet", (2,))
    Table(str(tmp_path)).optimize(OptimizeOptions())
    (text,) = Table(str(tmp_path)).snapshot().files["encoded_path"].to_pylist()
    assert text.startswith("p=%25C3%25A9/")
    assert list(tmp_path.glob("p=%C3%A9/*.parquet"))


def test_optimize_writes_to_a_short_directory_if_a_name_would_be_too_long(tmp_path: Path) -> None:
    long, short = "日" * 40, "日" * 20
    for number, value in enumerate([long, long, short, short]):
        folder = tmp_path / f"p={value}"
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), folder / f"{number}.parquet")
    convert(str(tmp_path), warn=lambda message: None)
    for options in (OptimizeOptions(), OptimizeOptions(cluster_by="id")):
        Table(str(tmp_path)).optimize(options)
        rows = Table(str(tmp_path)).scan().read_all().sort_by("id").to_pylist()
        assert [row["p"] for row in rows] == [long, long, short, short]
        names = Table(str(tmp_path)).snapshot().files["path"].to_pylist()
        (of_short, of_long) = sorted(names, key=lambda name: not name.startswith("p="))
        assert of_short.startswith(ascii_directory(f"p={short}/"))
        folder_of_long, _, file = of_long.partition("/")
        assert file.split("-", 2)[2].startswith(folder_of_long)
        assert len(folder_of_long) == 2
