"""Rows that other writers delete while an optimize runs are deleted from its outputs."""

import itertools
import json
import threading
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltactl.errors import ConflictError, UnsupportedFeatureError, ignore_warning, join_reasons
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.optimize.run import OptimizeOptions, OptimizeReport, optimize_table
from deltactl.operations.run_context import RunContext
from deltactl.table import Table
from tests.operations.optimize.test_races import IN_BATCHES, Race
from tests.support.table_builder import Action

COPIED = OptimizeOptions(min_row_group_bytes=1)
VECTORS = {"delta.enableDeletionVectors": "true"}


def race_with_vectors(*features: str, **properties: str) -> Race:
    return Race("deletionVectors", *features, properties={**VECTORS, **properties})


def added(race: Race, report: OptimizeReport) -> dict[str, Action]:
    """The outputs by partition."""
    return {
        action["add"]["partitionValues"]["p"]: action["add"]
        for version in report.versions
        for action in race.read_commit(version)
        if "add" in action
    }


def removed(race: Race, report: OptimizeReport) -> list[Action]:
    return [
        action["remove"]
        for version in report.versions
        for action in race.read_commit(version)
        if "remove" in action
    ]


def three_large_files(race: Race) -> list[str]:
    starts = (0, 5000, 10000)
    return race.builder.append(*([race.row(k + i, "d") for i in range(2000)] for k in starts))


@pytest.mark.parametrize("kind", ["u", "i", "p"])
def test_deleted_rows_are_carried_over(kind: str) -> None:
    race = race_with_vectors()
    race.builder.delete_rows(race.paths["a"][1], [0, 3])
    report = race.run(before_1=lambda: race.builder.delete_rows(race.paths["a"][1], [1, 4], kind))
    assert race.partitions_committed(report) == ["a", "b", "c"]
    output = added(race, report)["a"]
    assert output["deletionVector"]["cardinality"] == 2
    stats = json.loads(output["stats"])
    assert (stats["numRecords"], stats["tightBounds"]) == (13, False)
    assert json.loads(added(race, report)["b"]["stats"])["tightBounds"] is True
    info = race.read_commit(report.version_after)[0]["commitInfo"]
    assert info["operationMetrics"]["numDeletionVectorsAdded"] == "1"
    removes = {body["path"]: body.get("deletionVector") for body in removed(race, report)}
    path = race.builder.find(race.paths["a"][1])
    assert removes[path["path"]] == path["deletionVector"]
    race.assert_valid()


def test_a_large_vector_has_a_file_that_follows_the_rules_of_the_table() -> None:
    race = race_with_vectors(**{"delta.randomizeFilePrefixes": "true"})
    paths = three_large_files(race)
    report = race.run(before_1=lambda: race.builder.delete_rows(paths[1], range(0, 2000, 3)))
    vector = added(race, report)["d"]["deletionVector"]
    assert (vector["storageType"], vector["offset"], vector["cardinality"]) == ("u", 1, 667)
    assert len(vector["pathOrInlineDv"]) == 22
    race.assert_valid()


def test_vectors_of_lost_attempts_are_removed() -> None:
    race = race_with_vectors()
    paths = three_large_files(race)
    race.run(
        before_1=lambda: race.builder.delete_rows(paths[1], range(0, 2000, 3)),
        before_2=lambda: race.builder.delete_rows(paths[0], range(0, 2000, 5)),
        before_3=lambda: race.builder.delete_rows(paths[1], range(0, 2000, 7)),
    )
    race.assert_valid()


def test_a_file_removed_whole_gets_no_second_remove() -> None:
    race = race_with_vectors()
    gone = race.paths["b"][1]
    report = race.run(before_1=lambda: race.builder.remove(gone))
    assert race.partitions_committed(report) == ["a", "b", "c"]
    assert gone not in {body["path"] for body in removed(race, report)}
    assert added(race, report)["b"]["deletionVector"]["cardinality"] == 5
    assert report.files_removed == 8
    race.assert_valid()


def test_a_bin_without_a_live_row_commits_the_removes_that_are_left() -> None:
    race = race_with_vectors()

    def delete_all() -> None:
        race.builder.remove(race.paths["a"][0], race.paths["a"][2])
        race.builder.delete_rows(race.paths["a"][1], range(5))

    report = race.run(before_1=delete_all)
    assert race.partitions_committed(report) == ["a", "b", "c"]
    assert sorted(added(race, report)) == ["b", "c"]
    assert report.files_removed == 7
    race.assert_valid()


def test_without_vectors_a_bin_whose_rows_all_went_still_needs_none() -> None:
    race = Race("deletionVectors")
    race.builder.delete_rows(race.paths["a"][0], range(5))
    report = race.run(before_1=lambda: race.builder.remove(race.paths["a"][0]))
    assert race.partitions_committed(report) == ["a", "b", "c"]
    race.assert_valid()


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_stats_added_again_change_nothing_but_the_remove(properties: dict[str, str]) -> None:
    race = Race("deletionVectors", properties=properties)
    path = race.paths["a"][0]

    def add_again() -> None:
        add = {**race.builder.find(path), "dataChange": False, "tags": {"x": "y"}}
        race.builder.commit({"add": add}, operation="COMPUTE STATS")

    report = race.run(before_1=add_again)
    assert race.partitions_committed(report) == ["a", "b", "c"]
    (body,) = (body for body in removed(race, report) if body["path"] == path)
    assert body["tags"]["x"] == "y"
    assert not report.dropped
    race.assert_valid()


def _restore(race: Race) -> None:
    (first, *_) = race.paths["a"]
    add = {k: v for k, v in race.builder.find(first).items() if k != "deletionVector"}
    race.builder.commit(race.builder.remove_action(first), {"add": {**add, "dataChange": True}})


def _other_row_ids(race: Race) -> None:
    race.builder.commit({"add": {**race.builder.find(race.paths["a"][0]), "baseRowId": 777}})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_restore, "restored"),
        (_other_row_ids, "row ids"),
        (
            lambda race: race.builder.remove(race.paths["a"][0], data_change=False),
            "rewrote or deleted",
        ),
    ],
    ids=["restore", "row ids", "rearranged"],
)
def test_changes_that_drop_a_bin(change: Any, words: str) -> None:
    race = race_with_vectors("rowTracking")
    race.builder.delete_rows(race.paths["a"][0], [2])
    seen: list[str] = []

    def act() -> None:
        change(race)
        seen.append("changed")

    report = race.run(IN_BATCHES, before_1=act)
    assert seen
    assert {"b", "c"} <= set(race.partitions_committed(report))
    assert any(words in dropped.reason for dropped in report.dropped)


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableDeletionVectors": "false"},
        {"delta.universalFormat.enabledFormats": "iceberg"},
        {"delta.enableIcebergCompatV2": "true"},
    ],
)
def test_a_property_under_which_vectors_may_not_be_written(properties: dict[str, str]) -> None:
    race = race_with_vectors()

    def change() -> None:
        race.builder.change_metadata(properties=properties)
        race.builder.delete_rows(race.paths["a"][0], [2])

    report = race.run(before_1=change)
    assert any("new deletion vectors" in dropped.reason for dropped in report.dropped)
    assert "deletionVector" not in added(race, report)["a"]
    race.assert_valid()


def test_no_round_begins_after_the_time_limit() -> None:
    race = Race("deletionVectors")
    race.cancel = cancel = threading.Event()

    def delete_late() -> None:
        race.builder.delete_rows(race.paths["a"][0], [2])
        cancel.set()

    report = race.run(before_1=delete_late)
    assert (report.rounds, report.interrupted) == (1, True)
    assert [conflict.files for conflict in report.conflicts] == [3]
    race.assert_valid()


def test_only_the_files_of_lost_bins_are_planned_again() -> None:
    race = Race("deletionVectors")

    def write() -> None:
        race.builder.delete_rows(race.paths["a"][0], [2])
        race.builder.append(*([race.row(900 + n, "d")] for n in range(5)))

    report = race.run(before_1=write)
    assert (report.rounds, report.files_removed) == (2, 9)
    assert report.caught_up_version == race.start
    race.assert_valid()


def test_bins_lost_in_every_round_are_left() -> None:
    race = Race("deletionVectors")
    numbers = itertools.count()

    def delete() -> None:
        race.catch_up()
        race.builder.delete_rows(race.paths["a"][0], [next(numbers)])

    # The first attempt of each round; the second of the first round commits the other bins.
    report = race.run(before_1=delete, before_3=delete, before_4=delete, before_5=delete)
    assert (report.rounds, len(report.dropped), len(report.conflicts)) == (4, 4, 1)
    assert len(report.versions) == 1
    race.assert_valid()


def test_row_ids_are_kept_and_those_of_outputs_are_new() -> None:
    race = race_with_vectors("rowTracking")
    report = race.run(before_1=lambda: race.builder.delete_rows(race.paths["a"][0], [2]))
    output = added(race, report)["a"]
    assert output["deletionVector"]["cardinality"] == 1
    ends = sorted(
        (add["baseRowId"], add["baseRowId"] + json.loads(add["stats"])["numRecords"])
        for add in added(race, report).values()
    )
    assert ends[0][0] == 45
    assert all(one[1] == two[0] for one, two in zip(ends, ends[1:], strict=False))
    race.assert_valid()


@pytest.mark.parametrize("properties", [{}, VECTORS])
def test_an_overwrite_takes_every_row(properties: dict[str, str]) -> None:
    race = Race("deletionVectors", properties=properties)
    everything = [path for paths in race.paths.values() for path in paths]
    report = race.run(before_1=lambda: race.builder.remove(*everything))
    assert not report.versions
    assert not report.conflicts
    assert {dropped.reason for dropped in report.dropped} == {
        "other writers removed all of the input files"
    }
    race.assert_valid()


def test_each_bin_that_is_dropped_has_its_own_reason() -> None:
    race = race_with_vectors()
    race.builder.delete_rows(race.paths["a"][0], [2])
    race.cancel = threading.Event()

    def change() -> None:
        _restore(race)
        race.builder.remove(*race.paths["b"])
        race.builder.remove(race.paths["c"][0], data_change=False)
        race.cancel.set()  # type: ignore[union-attr]

    with pytest.raises(ConflictError) as caught:
        race.run(before_1=change)
    reasons = (
        "another writer restored rows of the input files",
        "other writers removed all of the input files",
        "another writer rewrote or deleted some of the input files",
    )
    found = caught.value.reasons
    assert sorted(found) == sorted(reasons)  # bins end in any order
    assert caught.value.message == f"nothing could be committed: {'; '.join(found)}"
    race.assert_valid()


def test_many_reasons_are_counted() -> None:
    assert join_reasons(["a", "b", "a", "c", "d", "e"]) == "a; b; c; and 2 more"


def _named_wrongly(vector: Action) -> Action:
    return {**vector, "storageType": "u", "pathOrInlineDv": "no uuid", "offset": 1}


@pytest.mark.parametrize(
    ("spoil", "committed"),
    [
        (_named_wrongly, "bc"),
        (lambda vector: {**vector, "storageType": "x"}, "bc"),
        # Its file is left out, and the other files of its bin are rewritten.
        (
            lambda vector: {**vector, "storageType": "p", "pathOrInlineDv": "s3://elsewhere/v.bin"},
            "abc",
        ),
        (
            lambda vector: {**vector, "storageType": "u", "pathOrInlineDv": "0" * 20, "offset": 1},
            "abc",
        ),
        (lambda vector: {**vector, "cardinality": 5}, "abc"),
    ],
    ids=["no uuid", "unknown kind", "another store", "missing file", "other count"],
)
def test_a_vector_that_cannot_be_used_costs_its_bin_at_most(spoil: Any, committed: str) -> None:
    race = race_with_vectors()
    path = race.paths["a"][0]

    def delete() -> None:
        remove, add = race.builder.delete_actions(path, [1], "i")
        add["add"]["deletionVector"] = spoil(add["add"]["deletionVector"])
        race.builder.commit(remove, add, operation="DELETE")

    report = race.run(before_1=delete)
    assert race.partitions_committed(report) == list(committed)
    (reason,) = {dropped.reason for dropped in report.dropped}
    assert "deletion vector of another writer" in reason
    snapshot = DeltaLog(race.store, ignore_warning).snapshot()
    live = pa.concat_tables(snapshot.file_batches(["path"]))["path"].to_pylist()
    assert path in live
    assert sum(name in live for name in race.paths["a"]) == (1 if "a" in committed else 3)


@pytest.mark.parametrize("options", [OptimizeOptions(), OptimizeOptions(cluster_by="id")])
def test_a_live_vector_of_an_unknown_type_costs_its_bin_only(options: OptimizeOptions) -> None:
    race = race_with_vectors()
    remove, add = race.builder.delete_actions(race.paths["a"][0], [1], "i")
    add["add"]["deletionVector"]["storageType"] = "x"
    race.builder.commit(remove, add, operation="DELETE")
    said: list[str] = []
    preview = optimize_table(
        DeltaLog(race.store, ignore_warning), options, RunContext(warn=said.append), dry_run=True
    )
    assert preview.plan.num_bins == 3
    assert ["storage type 'x'" in text for text in said] == [True]
    report = race.run(options)
    assert race.partitions_committed(report) == ["b", "c"]
    (failure,) = report.failures
    assert (failure.partition, failure.files) == ("p=a", 3)
    assert "storage type 'x'" in failure.reason
    with pytest.raises(UnsupportedFeatureError, match="storage type 'x'"):
        race.run(options)  # nothing else is left


def test_a_live_vector_of_an_unknown_type_in_a_later_round() -> None:
    race = race_with_vectors()

    def change() -> None:
        remove, add = race.builder.delete_actions(race.paths["a"][0], [1], "i")
        add["add"]["deletionVector"]["storageType"] = "x"
        race.builder.commit(remove, add, operation="DELETE")
        race.builder.delete_rows(race.paths["b"][0], [1])

    report = race.run(OptimizeOptions(cluster_by="id"), before_1=change)
    assert race.partitions_committed(report) == ["b", "c"]
    assert [failure.partition for failure in report.failures] == ["p=a"]
    assert not report.conflicts


_deletes = st.lists(
    st.tuples(st.integers(0, 5), st.sets(st.integers(0, 4), max_size=4), st.booleans()), max_size=4
)


_changes = given(
    before=_deletes,
    rounds=st.lists(_deletes, min_size=1, max_size=3),
    options=st.sampled_from([OptimizeOptions(), IN_BATCHES, COPIED]),
    tracked=st.booleans(),
)


@settings(max_examples=15)
@_changes
def test_live_rows_are_those_of_the_model(
    before: Any, rounds: Any, options: OptimizeOptions, tracked: bool
) -> None:
    """Files with vectors, and writers that delete rows or files before each of our attempts."""
    race = race_with_vectors(*(["rowTracking"] if tracked else []))
    paths = [*race.paths["a"], *race.paths["b"]]

    def delete(changes: Any) -> None:
        race.catch_up()
        for number, rows, whole in changes:
            live = Table(race.store.uri, store=race.store).snapshot().files["path"].to_pylist()
            if paths[number] not in live:
                continue
            if whole and len(rows) > 3:
                race.builder.remove(paths[number])
            elif rows:
                race.builder.delete_rows(paths[number], rows)

    delete(before)
    writers = {f"before_{n + 1}": lambda c=changes: delete(c) for n, changes in enumerate(rounds)}
    report = race.run(options, **writers)
    assert report.versions
    assert not report.conflicts
    race.assert_valid()


@pytest.mark.slow
@settings(max_examples=1000)
@_changes
def test_live_rows_are_those_of_the_model_explored(
    before: Any, rounds: Any, options: OptimizeOptions, tracked: bool
) -> None:
    test_live_rows_are_those_of_the_model.hypothesis.inner_test(  # type: ignore[attr-defined]
        before, rounds, options, tracked
    )
