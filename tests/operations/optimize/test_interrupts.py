"""A run that an exception of the caller ends, or Ctrl-C in a notebook, leaves no outputs behind."""

import threading
from pathlib import Path
from typing import Any

import pytest

from deltactl.engine.base import Progress
from deltactl.engine.local import LocalEngine
from deltactl.operations.optimize.layout import tasks
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.support.forwarding import ForwardingStore
from tests.support.stores import opened_as
from tests.support.table_builder import LOG, Column, TableBuilder


def build(root: Path) -> None:
    """Six partitions of two files each."""
    columns = [Column("id"), Column("p", "string")]
    builder = TableBuilder(root, columns, partition_by=["p"])
    for _ in range(2):
        builder.append(*([{"id": number, "p": str(number)}] for number in range(6)))


def files_of(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*.parquet")}


@pytest.mark.parametrize("ended_at", [1, 3])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("options", [{}, {"cluster_by": "id"}, {"commit_every_bytes": 1}])
def test_finished_outputs_without_a_commit_are_deleted(
    tmp_path: Path, options: dict[str, Any], error: type[BaseException], ended_at: int
) -> None:
    build(tmp_path)
    table, before = Table(tmp_path), files_of(tmp_path)

    def stop(progress: Progress) -> None:
        if progress.tasks_done >= ended_at:
            raise error

    with pytest.raises(error):
        table.optimize(engine=LocalEngine(4), on_progress=stop, **options)
    live = set(table.snapshot().files["path"].to_pylist())
    assert files_of(tmp_path) == before | live
    assert table.scan().read_all().num_rows == 12


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_cluster_that_is_being_placed_ends_early(
    tmp_path: Path, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token of the caller is not set: it may be that of other runs, too."""
    build(tmp_path)
    jobs: list[object] = []
    stopped, ensure_wanted = threading.Event(), tasks._Job._ensure_wanted
    unwanted: list[bool] = []

    def wait(self: Any) -> None:
        if self not in jobs:
            jobs.append(self)
        if self is not jobs[0]:
            assert stopped.wait(60)
            unwanted.append(self.spec.cancel.is_set())
        ensure_wanted(self)

    def stop(progress: Progress) -> None:
        threading.Timer(0.2, stopped.set).start()
        raise error

    monkeypatch.setattr(tasks._Job, "_ensure_wanted", wait)
    cancel = threading.Event()
    with pytest.raises(error):
        Table(tmp_path).optimize(
            engine=LocalEngine(2), on_progress=stop, cancel=cancel, cluster_by="id"
        )
    assert unwanted
    assert all(unwanted)
    assert not cancel.is_set()


def test_outputs_of_a_commit_that_may_exist_are_kept(tmp_path: Path) -> None:
    class Interrupted(ForwardingStore):
        def put_if_absent(self, name: str, data: bytes) -> Any:
            found = super().put_if_absent(name, data)
            if name.startswith(LOG) and name.endswith(".json"):
                raise KeyboardInterrupt
            return found

    build(tmp_path)
    store = Interrupted(LocalStore(str(tmp_path)))
    with opened_as(store), pytest.raises(KeyboardInterrupt):
        Table("x", store=store).optimize(engine=LocalEngine(2))
    table = Table(tmp_path)
    assert table.snapshot().version == 3
    assert table.scan().read_all().num_rows == 12
