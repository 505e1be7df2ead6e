"""Other writers commit between the snapshot and the commit of an optimize."""

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from deltactl.engine.base import CancelToken
from deltactl.engine.local import LocalEngine
from deltactl.errors import ConflictError, UnsupportedFeatureError
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.storage.store import Store
from deltactl.table import Table
from tests.support.clock import FixedClock
from tests.support.forwarding import ForwardingStore
from tests.support.run import run_on
from tests.support.stores import fresh_store
from tests.support.table_builder import LOG, Column, TableBuilder, canonical, commit_path, multiset

COLUMNS = (Column("id"), Column("v", "string"), Column("p", "string"))
IN_BATCHES = OptimizeOptions(commit_every_bytes=1)

Foreign = Callable[[], object]


class RacingStore(ForwardingStore):
    """Runs a foreign writer right before our n-th attempt to commit."""

    def __init__(self, inner: Store, **writers: Foreign) -> None:
        super().__init__(inner)
        self._writers = writers
        self.attempts: list[tuple[str, list[dict[str, Any]]]] = []

    def put_if_absent(self, name: str, data: bytes) -> None:
        self.attempts.append((name, [json.loads(line) for line in data.splitlines()]))
        foreign = self._writers.pop(f"before_{len(self.attempts)}", None)
        if foreign is not None:
            foreign()
        super().put_if_absent(name, data)


class Race:
    """A table with three partitions of three files, and a writer beside the optimize."""

    def __init__(
        self, *features: str, mapping: str = "none", properties: Mapping[str, str] | None = None
    ) -> None:
        self.store = fresh_store()
        self.builder = TableBuilder(
            self.store,
            COLUMNS,
            partition_by=["p"],
            features=features,
            mapping=mapping,
            properties=properties,
        )
        self.paths: dict[str, list[str]] = {}
        for p in "abc":
            files = [[self.row(100 * i + j, p) for j in range(5)] for i in range(3)]
            self.paths[p] = self.builder.append(*files)
        self.start = self.builder.version
        self.cancel: CancelToken | None = None

    @staticmethod
    def row(number: int, p: str = "a") -> dict[str, Any]:
        return {"id": number + 1000 * ord(p), "v": f"v{number}" if number % 3 else None, "p": p}

    def run(self, options: OptimizeOptions | None = None, **writers: Foreign) -> OptimizeReport:
        self.racing = RacingStore(self.store, **writers)
        return run_on(
            self.racing,
            optimize_table,
            options or OptimizeOptions(),
            engine=LocalEngine(workers=1),
            clock=FixedClock(1_600_000_000_000),
            cancel=self.cancel,
        )

    def catch_up(self) -> None:
        """Let the builder know the versions that we committed; they change no row."""
        while commit_path(self.builder.version + 1) in self.store.contents():
            for action in self.read_commit(self.builder.version + 1):
                domain = action.get("domainMetadata", {})
                if domain.get("domain") == "delta.rowTracking":
                    mark = json.loads(domain["configuration"])["rowIdHighWaterMark"]
                    self.builder._next_row_id = mark + 1
            self.builder.note([])

    def read_commit(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.store.read(commit_path(version)).splitlines()]

    def assert_valid(self) -> None:
        """Rows are as the other writer left them; no file is doubled, lost or forgotten."""
        table = Table(self.store.uri, store=self.store)
        rows = table.scan().read_all().to_pylist()
        assert multiset(rows) == multiset(self.builder.rows())
        snapshot = table.snapshot()
        live = snapshot.files["path"].to_pylist()
        assert len(set(live)) == len(live)
        named = set(live) | set(self.builder.data)
        left = {n for n in self.store.contents() if n.endswith(".parquet") and LOG not in n}
        assert left <= named, "an output that lost was not removed"
        vectors = set(vector_files(snapshot.files["deletion_vector"]).to_pylist())
        stored = {n for n in self.store.contents() if n.endswith(".bin")}
        assert {n for n in stored if "00ab-cdef" not in n} <= vectors, "a vector was left behind"

    def partitions_committed(self, report: OptimizeReport) -> list[str]:
        """Partitions of the files that our commits removed, a letter each."""
        return sorted(
            {
                str(next(iter(action["remove"]["partitionValues"].values())))
                for version in report.versions
                for action in self.read_commit(version)
                if "remove" in action
            }
        )


def test_a_concurrent_append_costs_nothing_but_a_version() -> None:
    race = Race()
    report = race.run(before_1=lambda: race.builder.append([race.row(7)]))
    assert report.versions == (race.start + 2,)
    assert race.partitions_committed(report) == ["a", "b", "c"]
    assert not report.conflicts
    race.assert_valid()
    info = race.read_commit(race.start + 2)[0]["commitInfo"]
    assert info["readVersion"] == race.start


def test_a_race_lost_twenty_times_is_won_in_the_end() -> None:
    race = Race()
    numbers = itertools.count()

    def append() -> None:
        race.builder.append([race.row(next(numbers))])

    report = race.run(None, **{f"before_{i}": append for i in range(1, 21)})
    assert report.versions == (race.start + 21,)
    race.assert_valid()


def test_a_deleted_input_drops_its_bin_only() -> None:
    race = Race()
    report = race.run(before_1=lambda: race.builder.remove(*race.paths["b"][1:]))
    assert race.partitions_committed(report) == ["a", "c"]
    (dropped,) = report.dropped
    assert (dropped.files, report.files_removed, report.files_added) == (3, 6, 2)
    assert not report.failures
    assert not report.conflicts, "the file that is left needs no rewrite"
    race.assert_valid()


@pytest.mark.parametrize("kind", [None, "i"])
def test_rows_deleted_from_an_input_do_not_rise_again(kind: str | None) -> None:
    """Also if it had deleted rows already."""
    race = Race("deletionVectors")
    path = race.paths["a"][0]
    if kind:
        race.builder.delete_rows(path, [0])
    report = race.run(before_1=lambda: race.builder.delete_rows(path, [1, 2], kind or "u"))
    assert race.partitions_committed(report) == ["a", "b", "c"]
    assert (len(report.versions), report.rounds, len(report.dropped)) == (2, 2, 1)
    race.assert_valid()


def test_another_optimize_of_the_same_files() -> None:
    race = Race()
    first: list[OptimizeReport] = []

    def other() -> None:
        first.append(Table(race.store.uri, store=race.store).optimize())

    report = race.run(before_1=other)
    assert (report.versions, report.conflicts, len(report.dropped)) == ((), (), 3)
    assert first[0].versions == (race.start + 1,)
    assert race.builder.version == race.start
    table = Table(race.store.uri, store=race.store)
    assert multiset(table.scan().read_all().to_pylist()) == multiset(race.builder.rows())
    assert table.snapshot().num_files == 3


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.change_metadata(properties={"delta.logRetentionDuration": "interval 1 day"}),
        lambda b: b.change_metadata(columns=[*b.columns, Column("extra", "string")]),
        lambda b: b.change_metadata(description="better"),
        lambda b: b.commit({"txn": {"appId": "app", "version": 3}}),
        lambda b: b.commit(operation="Empty Commit"),
    ],
    ids=["property", "added column", "description", "txn", "empty"],
)
def test_changes_that_keep_files_valid(change: Callable[[TableBuilder], object]) -> None:
    race = Race()
    report = race.run(before_1=lambda: change(race.builder))
    assert report.versions == (race.start + 2,)
    assert report.files_removed == 9
    race.assert_valid()


def map_columns(builder: TableBuilder) -> None:
    keys = ("delta.columnMapping.id", "delta.columnMapping.physicalName")
    columns = [
        replace(column, metadata=dict(zip(keys, (number, column.name), strict=True)))
        for number, column in enumerate(builder.columns, 1)
    ]
    builder.change_metadata(
        columns=columns,
        properties={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "99"},
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b.change_metadata(id="another"), "replaced"),
        (lambda b: b.change_metadata(partitionColumns=[]), "partition columns"),
        (map_columns, "column mapping"),
        (
            lambda b: b.change_metadata(properties={"delta.enableRowTracking": "true"}),
            "delta.enableRowTracking",
        ),
        (
            lambda b: b.change_metadata(properties={"delta.rowTrackingSuspended": "true"}),
            "Suspended",
        ),
    ],
    ids=["another table", "partition columns", "mapping", "row tracking", "suspended"],
)
def test_changes_that_make_files_invalid(
    change: Callable[[TableBuilder], object], words: str
) -> None:
    race = Race("columnMapping")
    if words in {"replaced", "partition columns"}:  # the new table cannot be planned again
        with pytest.raises(ConflictError, match=words):
            race.run(before_1=lambda: change(race.builder))
        left = {n for n in race.store.contents() if n.endswith(".parquet")}
        assert left == set(race.builder.data)
        return
    report = race.run(before_1=lambda: change(race.builder))
    assert all(words in dropped.reason for dropped in report.dropped)
    assert (len(report.dropped), report.rounds, report.conflicts) == (3, 2, ())
    race.assert_valid()


@pytest.mark.parametrize(
    "options", [OptimizeOptions(), IN_BATCHES], ids=["one-commit", "in-batches"]
)
def test_an_upgrade_beyond_us_is_refused_and_cleared_up(options: OptimizeOptions) -> None:
    race = Race()

    def upgrade() -> None:
        race.builder.commit(race.builder.protocol_action(["notYetInvented"]))

    with pytest.raises(UnsupportedFeatureError, match="notYetInvented") as caught:
        race.run(options, before_1=upgrade)
    assert caught.value.exit_code == 7
    left = {n for n in race.store.contents() if n.endswith(".parquet")}
    assert left == set(race.builder.data)
    assert commit_path(race.start + 2) not in race.store.contents(), "committed all the same"


def test_an_upgrade_that_asks_for_more_in_each_file() -> None:
    """From `materializePartitionColumns` on new files hold partition columns: ours do not."""
    race = Race()

    def upgrade() -> None:
        race.builder.commit(race.builder.protocol_action(["materializePartitionColumns"]))

    report = race.run(before_1=upgrade)
    assert all("materializePartitionColumns" in dropped.reason for dropped in report.dropped)
    assert (len(report.dropped), report.rounds) == (3, 2)
    race.assert_valid()


def test_an_upgrade_we_know() -> None:
    race = Race()

    def upgrade() -> None:
        race.builder.commit(race.builder.protocol_action(["vacuumProtocolCheck"]))

    assert race.run(before_1=upgrade).versions == (race.start + 2,)
    race.assert_valid()


def test_a_loss_before_an_earlier_batch_counts_for_the_later_ones() -> None:
    """The winner comes before the first batch's commit and touches an input of the last."""
    race = Race()
    report = race.run(IN_BATCHES, before_1=lambda: race.builder.remove(*race.paths["c"][1:]))
    assert report.versions == (race.start + 2, race.start + 3)
    assert race.partitions_committed(report) == ["a", "b"]
    race.assert_valid()


def test_a_loss_between_two_batches() -> None:
    race = Race("deletionVectors")

    def between() -> None:
        race.catch_up()
        race.builder.delete_rows(race.paths["c"][2], [0])

    report = race.run(IN_BATCHES, before_2=between)
    assert report.versions == (race.start + 1, race.start + 3, race.start + 4)
    assert race.partitions_committed(report) == ["a", "b", "c"]
    race.assert_valid()


def test_a_change_of_metadata_between_two_batches() -> None:
    race = Race()

    def between() -> None:
        race.catch_up()
        race.builder.change_metadata(properties={"delta.enableRowTracking": "true"})

    report = race.run(IN_BATCHES, before_2=between)
    assert report.versions == (race.start + 1, race.start + 3, race.start + 4)
    assert (len(report.dropped), report.conflicts) == (2, ())
    race.assert_valid()


def _in_commit_times(race: Race) -> list[int]:
    times = []
    for version in range(len([n for n in race.store.contents() if n.startswith(LOG)])):
        first = race.read_commit(version)[0]
        assert next(iter(first["commitInfo"])) == "inCommitTimestamp"
        times.append(first["commitInfo"]["inCommitTimestamp"])
    return times


def test_in_commit_timestamps_grow_over_every_retry() -> None:
    """Our clock is years behind the other writer's."""
    race = Race("inCommitTimestamp")

    def append_more() -> None:
        race.catch_up()
        race.builder.append([race.row(1)])

    report = race.run(IN_BATCHES, before_1=append_more, before_3=append_more)
    assert len(report.versions) == 3
    times = _in_commit_times(race)
    assert all(later > earlier for earlier, later in itertools.pairwise(times))
    race.assert_valid()


def test_in_commit_timestamps_that_a_winner_switches_on() -> None:
    race = Race()

    def switch_on() -> None:
        race.builder.features = frozenset({"inCommitTimestamp"})
        race.builder.change_metadata(
            protocol=race.builder.protocol_action(["inCommitTimestamp"]),
            properties={"delta.enableInCommitTimestamps": "true"},
        )

    report = race.run(before_1=switch_on)
    times = [
        race.read_commit(v)[0]["commitInfo"]["inCommitTimestamp"]
        for v in (race.start + 1, report.version_after)
    ]
    assert times[1] == times[0] + 1


def _row_ids(race: Race) -> dict[Any, tuple[int, int]]:
    """Row id and commit version of each live row, read here by other means than the program's."""
    import pyarrow.parquet as pq

    found = {}
    for add in Table(race.store.uri, store=race.store).snapshot().files.to_pylist():
        with race.store.open_input(add["path"]) as source:
            rows = pq.read_table(source).to_pylist()
        for position, row in enumerate(rows):
            own = row.pop("_row-id-col-1", None), row.pop("_row-version-col-1", None)
            ids = (
                add["base_row_id"] + position if own[0] is None else own[0],
                add["default_row_commit_version"] if own[1] is None else own[1],
            )
            found[canonical(row)] = ids
    return found


def test_row_ids_stay_and_the_high_water_mark_follows_every_winner() -> None:
    race = Race("rowTracking")
    before = race.builder.row_ids()

    def append_more() -> None:
        race.catch_up()
        race.builder.append([race.row(50 + i) for i in range(4)])

    report = race.run(IN_BATCHES, before_1=append_more, before_3=append_more)
    assert len(report.versions) == 3
    after = _row_ids(race)
    for row, ids in before.items():
        assert after[row] == ids
    assert len({row_id for row_id, _ in after.values()}) == len(after)
    adds = [
        (action["add"]["baseRowId"], json.loads(action["add"]["stats"])["numRecords"], version)
        for version in range(report.version_after + 1)
        for action in race.read_commit(version)
        if "add" in action
    ]
    for (base, rows, _), (later, _, _) in itertools.pairwise(adds):
        assert base + rows == later, "ids overlap, or were handed out backwards"
    snapshot = Table(race.store.uri, store=race.store).snapshot()
    mark = json.loads(snapshot.domains["delta.rowTracking"].configuration)
    assert mark["rowIdHighWaterMark"] == adds[-1][0] + adds[-1][1] - 1
    for version in report.versions:
        for action in race.read_commit(version):
            if "add" in action:
                assert action["add"]["defaultRowCommitVersion"] == version
    race.assert_valid()


def test_every_attempt_is_a_new_commit() -> None:
    race = Race()
    race.run(before_1=lambda: race.builder.append([race.row(1)]))
    (first_name, first), (second_name, second) = race.racing.attempts
    assert first_name < second_name
    assert first[0]["commitInfo"]["txnId"] != second[0]["commitInfo"]["txnId"]


def test_a_version_that_races_with_a_truncated_commit() -> None:
    """The winner's commit is there, and is no JSON: nothing of ours is committed behind it."""
    race = Race()
    path = commit_path(race.start + 1)
    with pytest.raises(Exception, match=path):
        race.run(before_1=lambda: race.store.put(path, b'{"add":{"path":"x'))
    assert commit_path(race.start + 2) not in race.store.contents()
    left = {n for n in race.store.contents() if n.endswith(".parquet")}
    assert left == set(race.builder.data)
