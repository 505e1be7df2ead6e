"""How a check goes about it: few requests, nothing written, and going on where it was stopped."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import CloneOptions, Table, convert
from deltactl.engine.base import CancelToken, Progress
from deltactl.engine.local import LocalEngine
from deltactl.errors import InterruptedRunError, StorageError, UsageError, ignore_warning
from deltactl.log.audit.checksum import write_checksum
from deltactl.log.delta_log import DeltaLog
from deltactl.log.find_files import find_files
from deltactl.log.upkeep.compaction import plan_compaction, write_compaction
from deltactl.operations.check import content as check_content
from deltactl.operations.check import files as check_files
from deltactl.operations.check.options import CheckOptions, Depth
from deltactl.operations.check.report import CheckReport
from deltactl.operations.check.run import check_table
from deltactl.operations.optimize.run import OptimizeOptions, optimize_table
from deltactl.storage.local.store import LocalStore
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from tests.support.checkpoints import checkpoint, fail, memory_of, new_table
from tests.support.damage import DEEP, check, codes, edit_action, table
from tests.support.run import run_on
from tests.support.stores import CountingStore, Fault, FaultyStore, MemoryStore
from tests.support.table_builder import Column, TableBuilder
from tests.support.table_samples import build_sample

pytestmark = pytest.mark.thorough


def many_files(count: int, **options: Any) -> TableBuilder:
    builder = new_table(Column("id"), **options)
    builder.append(*([{"id": n}] for n in range(count)))
    return builder


def run(store: Store, cancel: CancelToken | None = None, **options: Any) -> CheckReport:
    return run_on(store, check_table, CheckOptions(**options), engine=LocalEngine(1), cancel=cancel)


def stop(store: Store, state: str) -> None:
    """Interrupt a check after its first batch."""
    cancel = threading.Event()
    with pytest.raises(InterruptedRunError):
        run_on(
            store, check_table, CheckOptions(resume=state), engine=LocalEngine(1), cancel=cancel,
            on_progress=lambda *_: cancel.set(),
        )  # fmt: skip


def progress_of(store: Store, depth: Depth) -> list[Progress]:
    seen: list[Progress] = []
    options = CheckOptions(depth=depth)
    run_on(store, check_table, options, engine=LocalEngine(1), on_progress=seen.append)
    return seen


def test_neighbours_are_listed_and_not_asked_for_one_by_one() -> None:
    store = CountingStore(memory_of(many_files(1200)))
    assert run(store).counts.num_checked == 1200
    asked = [name for name in store.names.get("stat_many", []) if name.endswith(".parquet")]
    assert asked == []
    assert store.calls["list_from"] <= 1 + 2 * 3  # the log; then a range for each of three batches
    assert store.calls["read_ranges"] == 0


def test_a_footer_is_one_request() -> None:
    store = CountingStore(memory_of(many_files(40)))
    assert run(store, depth=Depth.FOOTERS).counts.num_rows == 40
    assert store.calls["read_ranges"] == 40
    assert store.calls["open_input"] == 0


@pytest.mark.parametrize("depth", [Depth.FOOTERS, Depth.DATA])
@pytest.mark.parametrize("held", [4 << 20, 3_000, 1])
def test_every_footer_of_a_batch_is_looked_at(
    held: int, depth: Depth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is held at once, in three schemas that take turns."""
    monkeypatch.setattr(check_content, "_FOOTER_BYTES_HELD", held)
    for number in range(130):
        columns = {"id": [number], **{name: [number] for name in "ab"[: number % 3]}}
        pq.write_table(pa.table(columns), tmp_path / f"f{number:03}.parquet")
    convert(str(tmp_path))
    broken = [f"f{number:03}.parquet" for number in (0, 1, 63, 64, 65, 129)]
    for name in broken:
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-4] + b"PAR2")
    report = run_on(open_store(str(tmp_path), {}), check_table, CheckOptions(depth=depth))
    found = report.findings.to_pylist()
    assert [(finding["code"], finding["file"]) for finding in found] == [
        ("FILE_UNREADABLE", name) for name in broken
    ]
    assert report.counts.num_checked == 130
    assert report.counts.num_rows == 124


def test_progress_shows_bytes_that_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a footer no more than its file has, and nothing for what a log cannot mean."""
    builder = many_files(4)
    sizes = [add["size"] for add in builder.state.files.values()]
    monkeypatch.setattr(check_files, "_BYTES_A_FOOTER", sizes[0] - 1)

    def total(depth: Depth) -> int:
        (seen,) = {it.bytes_total for it in progress_of(builder.store, depth)}
        return seen

    assert total(Depth.SIZES) == 0
    assert total(Depth.FOOTERS) == sum(min(size, sizes[0] - 1) for size in sizes)
    assert total(Depth.DATA) == sum(sizes)
    edit_action(builder, 1, "add", size=-5)
    assert total(Depth.DATA) == 0


def test_few_files_among_many_are_asked_for() -> None:
    """Where a folder holds much else, listing it would cost more than it saves."""
    memory = MemoryStore("memory://check/crowded")
    for number in range(3000):
        memory.put(f"d/{number:05d}", b"x")
    store = CountingStore(memory)
    wanted = [f"d/{number:05d}" for number in range(0, 3000, 300)]
    found, elsewhere = find_files(store, [*wanted, "d/nothing"])
    assert [found[name] is not None for name in wanted] == [True] * 10
    assert found["d/nothing"] is None
    assert elsewhere == frozenset()
    assert store.names["stat_many"] == [*wanted, "d/nothing"]


def test_files_on_storage_that_cannot_be_opened_are_findings() -> None:
    builder = table()
    edit_action(builder, 2, "add", path="nowhere://x/f.parquet")
    report = check(builder.store)
    assert codes(report) == ["FILE_UNCHECKED"]
    assert report.findings["file"].to_pylist() == ["nowhere://x/f.parquet"]
    assert report.counts.num_checked == 2


def clone_elsewhere(tmp_path: Path) -> tuple[Store, Store]:
    """A table with deletion vectors, and a shallow clone of it on a disk.

    The directories of partitions have escapes in their names.
    """
    builder = new_table(
        Column("id"), Column("p", "string"), partition_by=["p"], features=["deletionVectors"]
    )
    path, _ = builder.append([{"p": "a:b", "id": n} for n in (1, 2)], [{"p": "%41 c", "id": 3}])
    builder.delete_rows(path, [0])
    target = Table(tmp_path, warn=ignore_warning)
    Table(builder.store.uri, warn=ignore_warning).clone(target, CloneOptions(deep=False))
    return builder.store, LocalStore(str(tmp_path))


def test_files_on_other_storage_are_checked(tmp_path: Path) -> None:
    source, clone = clone_elsewhere(tmp_path)
    report = check(clone, **DEEP)
    assert (codes(report), report.notes) == ([], ())
    assert (report.counts.num_checked, report.counts.num_vectors) == (2, 1)
    names = [name for batch in source.walk() for name in batch]
    (vector,) = (name for name in names if name.endswith(".bin"))
    first, second = sorted(name for name in names if name.endswith(".parquet"))
    data = source.read(first)
    source.put(first, data[:4] + bytes(len(data) - 12) + data[-8:])
    assert "FILE_UNREADABLE" in codes(check(clone, **DEEP))
    source.put(first, data[1:])
    source.delete_many([vector, second])
    report = check(clone)
    assert codes(report) == ["FILE_MISSING", "FILE_SIZE", "VECTOR_MISSING"]
    assert not report.is_sound


def test_a_store_that_fails_is_an_error_and_no_finding() -> None:
    memory = memory_of(many_files(3))
    with pytest.raises(StorageError):
        run(FaultyStore(memory, *(Fault(n, "error", method="stat_many") for n in (1, 2))))


def test_an_interrupted_check_goes_on_from_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_files, "_FILES_A_TASK", 10)
    builder = many_files(95)
    builder.store.delete_many(["f00003.parquet", "f00077.parquet"])
    whole = run(builder.store, depth=Depth.FOOTERS)
    options: dict[str, Any] = {"depth": Depth.FOOTERS, "resume": str(tmp_path / "state")}
    cancel = threading.Event()
    store = CountingStore(memory_of(builder))

    class _CancelLater(CountingStore):
        def read_ranges(self, name: str, ranges: Any) -> list[bytes]:
            if self.calls["read_ranges"] == 30:
                cancel.set()
            return super().read_ranges(name, ranges)

    with pytest.raises(InterruptedRunError):
        run(_CancelLater(memory_of(builder)), cancel, **options)
    builder.append([{"id": 1000}])  # the version that was begun is the one that is finished
    report = run(store, **options)
    assert report.version == 1
    assert report.findings == whole.findings
    assert replace(report.counts, num_commits=2) == whole.counts
    assert 0 < store.calls["read_ranges"] < 70


def test_after_a_complete_check_its_file_begins_a_new_one(tmp_path: Path) -> None:
    builder, state = many_files(3), tmp_path / "state"
    assert run(builder.store, resume=str(state)).is_sound
    assert state.read_bytes() == b""
    builder.append([{"id": 1000}])
    builder.store.delete_many(["f00001.parquet"])
    report = run(builder.store, resume=str(state))
    assert report.version == 2
    assert codes(report) == ["FILE_MISSING"]


def test_a_file_about_another_check_is_refused(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    stop(many_files(3).store, state)
    with pytest.raises(UsageError, match="another check") as caught:
        run(many_files(3).store, resume=state, depth=Depth.DATA, sample=0.5)
    told = caught.value.message.partition("another check: ")[2]
    assert told == (
        "its depth is sizes, but this check has data; "
        "its sample is 1.0, but this check has 0.5; "
        "its vectors is off, but this check has on"
    )
    with pytest.raises(UsageError, match="cannot be read or written"):
        run(many_files(3).store, resume=str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        *(b"mine", b"no JSON\n", b"[]\n", b"[]\nmine"),
        *(b"PAR1\n\xff\nPAR1", b'{"a": 1}\n{"b"', b'{"format": 1}\nx\n'),
    ],
)
def test_a_file_that_no_check_wrote_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    state = tmp_path / "state"
    state.write_bytes(content)
    with pytest.raises(UsageError):
        run(many_files(3).store, resume=str(state))
    assert state.read_bytes() == content


@pytest.mark.parametrize("cut", [0, 1, 20, -6])
def test_a_line_that_was_cut_is_written_again(
    tmp_path: Path, cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first line, and the last one, which is of a batch."""
    monkeypatch.setattr(check_files, "_FILES_A_TASK", 1)
    builder, state = many_files(3), tmp_path / "state"
    stop(builder.store, str(state))
    whole = state.read_bytes()
    assert whole.count(b"\n") == 2
    state.write_bytes(whole[:cut])
    stop(builder.store, str(state))
    assert state.read_bytes().startswith(whole)
    assert run(builder.store, resume=str(state)).counts.num_checked == 3


def test_a_file_of_a_table_is_no_record_of_progress(tmp_path: Path) -> None:
    builder = TableBuilder(tmp_path / "t", [Column("id")])
    (name,) = builder.append([{"id": 1}])
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "t" / name)
    before = link.read_bytes()
    for path in (tmp_path / "t" / name, tmp_path / "t" / "_delta_log" / "state", link):
        with pytest.raises(UsageError, match="is in the table at"):
            run(builder.store, resume=str(path))
    assert link.read_bytes() == before


def test_tasks_are_cut_by_bytes_where_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = many_files(6)
    size = builder.find("f00001.parquet")["size"]
    monkeypatch.setattr(check_files, "_BYTES_A_TASK", 2 * size + 1)
    assert [it.tasks_total for it in progress_of(builder.store, Depth.DATA)] == [3, 3, 3]


def test_a_table_without_files_is_valid() -> None:
    builder = new_table(Column("id"))
    report = check(builder.store, depth=Depth.DATA)
    assert codes(report) == []
    assert report.counts.num_checked == 0


@pytest.mark.parametrize(
    "features", ["deletion-vectors", "mapped-by-id", "row-tracking", "type-widening"]
)
def test_what_other_commands_write_is_valid(features: str) -> None:
    """Statistics, row ids, checkpoints, checksums and compacted files of ours."""
    store = MemoryStore(f"memory://check/written-{features}")
    build_sample(store, features=features, layout="partitioned")
    log = DeltaLog(store, fail)
    snapshot = log.snapshot()
    compaction = plan_compaction(log, snapshot, None)
    assert compaction is not None
    assert write_compaction(snapshot, compaction) is not None
    assert write_checksum(store, snapshot, snapshot.num_files, snapshot.size_bytes) is not None
    options, engine = OptimizeOptions(), LocalEngine(2)
    assert run_on(store, optimize_table, options, warn=fail, engine=engine).files_added > 0
    checkpoint(store)
    report = run(store, all_versions=True, **DEEP)
    assert report.findings.to_pylist() == []
    counts = report.counts
    assert min(counts.num_checkpoints, counts.num_compacted, counts.num_checksums) > 0
