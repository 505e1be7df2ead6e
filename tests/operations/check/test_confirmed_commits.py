"""A commit lost actions, and its changes were written again: the original would repeat rows."""

import os
import re
import shlex
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from deltactl import Table
from deltactl.errors import SafetyError
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.storage.local.store import LocalStore
from tests.operations.vacuum.test_local import age
from tests.support.run import run_on
from tests.support.table_builder import LOG, commit_path

LOST = [2, 3]


def truncate(root: Path) -> bytes:
    """Return the original of version 1, which lost the last of its add actions."""
    for ids in ([1], LOST):
        rows = pa.table({"id": ids, "p": [str(it) for it in ids]})
        write_deltalake(root, rows, mode="append", partition_by=["p"])
    commit = root / commit_path(1)
    original = commit.read_bytes()
    adds = [line for line in original.splitlines(keepends=True) if b'"add"' in line]
    commit.write_bytes(original.replace(adds[-1], b""))
    return original


def write_again(root: Path) -> None:
    found = DeltaTable(root).to_pyarrow_table()["id"].to_pylist()
    lost = [it for it in LOST if it not in found]
    write_deltalake(root, pa.table({"id": lost, "p": [str(it) for it in lost]}), mode="append")


def find(root: Path, **options: Any) -> dict[str, str]:
    """Return the repairs of the findings by code."""
    rows = Table(root).check(**options).findings.to_pylist()
    return {row["code"]: row["repair"] for row in rows}


@pytest.mark.parametrize("checkpoints", [False, True])
def test_the_commit_is_kept_after_a_checkpoint_of_it(tmp_path: Path, checkpoints: bool) -> None:
    original = truncate(tmp_path)
    write_again(tmp_path)
    DeltaTable(tmp_path).create_checkpoint()
    write_deltalake(tmp_path, pa.table({"id": [4], "p": ["4"]}), mode="append")
    repairs = find(tmp_path, checkpoints=checkpoints)
    assert repairs.keys() == {"COMMIT_DOUBTFUL"}
    text = repairs["COMMIT_DOUBTFUL"]
    assert text.startswith("keep the commits as they are if the rows are right")
    assert f"{LOG}/{2:020d}.checkpoint.parquet agrees" in text
    assert "undo what was written instead, or rows are there twice" in text
    (tmp_path / commit_path(1)).write_bytes(original)
    repairs = find(tmp_path, checkpoints=checkpoints)
    assert "first see `deltactl explain CHECKPOINT_WRONG`" in repairs["CHECKPOINT_WRONG"]


def test_a_commit_without_a_later_checkpoint_is_restored_unless_it_was_replaced(
    tmp_path: Path,
) -> None:
    truncate(tmp_path)
    text = find(tmp_path)["COMMIT_DOUBTFUL"]
    assert "restore _delta_log/00000000000000000001.json from a backup" in text
    assert "If its changes were written again, keep it, or undo the new changes first" in text


def test_a_commit_that_a_checkpoint_contradicts_is_restored(tmp_path: Path) -> None:
    """Later versions do not have the files, so that the live files are those of the commits."""
    original = truncate(tmp_path)
    damaged = (tmp_path / commit_path(1)).read_bytes()
    (tmp_path / commit_path(1)).write_bytes(original)
    DeltaTable(tmp_path).create_checkpoint()
    DeltaTable(tmp_path).delete()
    (tmp_path / commit_path(1)).write_bytes(damaged)
    repairs = find(tmp_path)
    assert "CHECKPOINT_DOUBTFUL" in repairs
    assert repairs["COMMIT_DOUBTFUL"].startswith("cannot be repaired")


def test_a_commit_that_a_restore_undid_is_kept(tmp_path: Path) -> None:
    """The original would bring back the add that the RESTORE, which did not see it, left."""
    truncate(tmp_path)
    restored = find(tmp_path)["COMMIT_DOUBTFUL"]
    assert restored.startswith("cannot be repaired: restore")
    warnings: list[str] = []
    Table(tmp_path, warn=warnings.append).restore(version=0)
    text = "Version 2 restores version 0, from before this commit"
    # A restore that has nothing to commit undoes nothing, so only `check` says what to keep.
    assert "may be damaged" in str(warnings)
    assert "keep it" not in str(warnings)
    repair = find(tmp_path)["COMMIT_DOUBTFUL"]
    assert repair.startswith("keep the commit as it is")
    assert text in repair
    with pytest.raises(SafetyError, match=text):
        Table(tmp_path).checkpoint()
    Table(tmp_path, warn=warnings.append).restore(version=1)
    assert find(tmp_path)["COMMIT_DOUBTFUL"] == restored


def confirm(root: Path, command: Sequence[str]) -> None:
    """Run ``deltactl checkpoint`` of a text as on a terminal, and say yes."""
    name, uri, *flags = command
    assert (name, uri) == ("checkpoint", f"file://{root}")
    options = CheckpointOptions(cleanup_only={(): False, ("--cleanup-only",): True}[*flags,])
    agree = partial(checkpoint_table, confirm=lambda _: True, confirm_doubt=lambda _: True)
    run_on(LocalStore(str(root)), agree, options)


def expire(root: Path) -> None:
    """Make all versions so old that a log cleanup deletes those before the newest checkpoint."""
    age(root)
    for path in sorted((root / LOG).glob("*.json")):
        when = path.stat().st_mtime + int(path.stem)  # the time of each shows its version
        os.utime(path, (when, when))


def ensure_refused(root: Path) -> None:
    for run in (
        partial(Table(root).vacuum, retain="0s", force_retention=True),
        partial(Table(root).checkpoint, cleanup=True),
    ):
        with pytest.raises(SafetyError, match="may be damaged"):
            run()


@pytest.mark.usefixtures("trusted_clock")
def test_the_texts_lead_to_the_end_of_the_refusals(tmp_path: Path) -> None:
    """``check`` names the next command each time."""
    truncate(tmp_path)
    table = Table(tmp_path, warn=lambda _: None)
    table.restore(version=0)
    with pytest.raises(SafetyError, match="may be damaged"):
        table.optimize()
    texts = []
    for _ in range(2):
        texts.append(find(tmp_path)["COMMIT_DOUBTFUL"])
        first = re.findall(r"confirm `deltactl ([^`]*)` on a terminal", texts[-1])[0]
        expire(tmp_path)
        ensure_refused(tmp_path)
        confirm(tmp_path, shlex.split(first))
        table.optimize()
    assert texts[0].startswith("keep the commit as it is")
    for text in texts:
        assert "`vacuum` and log cleanup stay refused" in text
        assert text.count(" --cleanup-only` on a terminal") == 1
    assert not find(tmp_path)
    table.vacuum(retain="0s", force_retention=True)
    table.checkpoint(cleanup=True)


def test_a_repeated_remove_that_a_restore_undid_is_kept(tmp_path: Path) -> None:
    """The remedy was run: run again, it would undo newer changes."""
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [number], "p": ["p"]}), mode="append")
    stale, table = DeltaTable(tmp_path), Table(tmp_path, warn=lambda _: None)
    table.optimize()
    stale.optimize.compact()
    assert "`deltactl explain REMOVE_REPEATED`" in find(tmp_path)["REMOVE_REPEATED"]
    table.restore(version=3)
    write_deltalake(tmp_path, pa.table({"id": [9], "p": ["p"]}), mode="append")
    text = find(tmp_path)["REMOVE_REPEATED"]
    assert text.startswith("keep the commit as it is. Version 5 restores version 3, from before")
    table.restore(version=4)  # which has the rows twice
    assert "`deltactl explain REMOVE_REPEATED`" in find(tmp_path)["REMOVE_REPEATED"]
