"""The tags of a ``remove``, read by the rules of delta-io/delta#7407, which are written here again.

A delete that lost against our commit is replayed on our output, by the tags and vectors alone.
"""

import json
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.parquet.data_file import iter_data_files
from deltactl.parquet.open_files import read_deletion_vector
from deltactl.table import Table
from tests.operations.optimize.test_carry import race_with_vectors, removed
from tests.operations.optimize.test_races import Race
from tests.support.table_builder import Action

OURS = {"compactedInto", "compactionInfo"}


def replay(remove: Action, read_before: BitMap64, deleted: set[int]) -> tuple[str, set[int]]:
    """Which rows of which output a delete of physical rows of the removed file means."""
    (target,) = json.loads(remove["tags"]["compactedInto"])
    (run,) = json.loads(remove["tags"]["compactionInfo"])
    found = set()
    for position in deleted - set(read_before):
        assert position < run["sourceNumPhysicalRecords"]
        rank = sum(1 for gone in read_before if gone < position)
        found.add(run["rowOffsetInTarget"] + position - rank)
    return target, found


@settings(max_examples=40)
@given(
    before=st.lists(st.sets(st.integers(0, 4), max_size=4), min_size=3, max_size=3),
    later=st.lists(st.sets(st.integers(0, 4)), min_size=3, max_size=3),
)
def test_a_delete_that_lost_is_replayed_on_our_output(before: Any, later: Any) -> None:
    race = race_with_vectors()
    paths = race.paths["a"]
    for path, rows in zip(paths, before, strict=True):
        if rows:
            race.builder.delete_rows(path, rows)
    live = Table(race.store.uri, store=race.store).snapshot().files
    read = {f.path: read_deletion_vector(race.store, f) for f in iter_data_files(live)}
    report = race.run()
    deleted: dict[str, set[int]] = {}
    removes = {body["path"]: body for body in removed(race, report)}
    for path, rows in zip(paths, later, strict=True):
        assert removes[path]["tags"].keys() >= OURS
        target, found = replay(removes[path], read[path] or BitMap64(), rows)
        deleted.setdefault(target, set()).update(found)
    (output,) = deleted
    rows = [row["id"] for row in pq.read_table(race.store.open_input(output)).to_pylist()]
    expected = {row["id"] for row in race.builder.rows() if row["p"] == "a"}
    for number, gone in enumerate(later):
        expected -= {Race.row(100 * number + place)["id"] for place in gone}
    assert {row for at, row in enumerate(rows) if at not in deleted[output]} == expected


def test_tags_that_would_not_be_exact_are_left_out() -> None:
    race = race_with_vectors()
    changed, *others = race.paths["a"]
    report = race.run(before_1=lambda: race.builder.delete_rows(changed, [0]))
    removes = {body["path"]: body for body in removed(race, report)}
    assert not OURS & removes[changed].get("tags", {}).keys()
    assert all(removes[path]["tags"].keys() >= OURS for path in others)


def test_tags_of_an_earlier_remove_are_not_repeated() -> None:
    """A file that was brought back with the tags of its ``remove``, and changed once more."""
    race = race_with_vectors()
    path = race.paths["a"][0]
    old = {"compactedInto": '["gone.parquet"]', "compactionInfo": "[]", "x": "y"}
    race.builder.commit({"add": {**race.builder.find(path), "tags": old}})
    report = race.run(before_1=lambda: race.builder.delete_rows(path, [0]))
    removes = {body["path"]: body for body in removed(race, report)}
    assert removes[path]["tags"] == {"x": "y"}


def test_other_tags_stay() -> None:
    race = race_with_vectors()
    path = race.paths["a"][0]
    race.builder.commit({"add": {**race.builder.find(path), "tags": {"x": "y"}}})
    removes = {body["path"]: body for body in removed(race, race.run())}
    assert removes[path]["tags"].keys() == {"x", *OURS}


def test_tables_without_vectors_have_no_such_tags() -> None:
    race = Race("deletionVectors")
    assert not any("tags" in body for body in removed(race, race.run()))


def test_log_compactions_keep_them() -> None:
    race = race_with_vectors()
    expected = {body["path"]: body["tags"] for body in removed(race, race.run())}
    Table(race.store.uri, store=race.store).checkpoint(CheckpointOptions(compact_log=True))
    (name,) = (n for n in race.store.contents() if n.endswith(".compacted.json"))
    actions = [json.loads(line) for line in race.store.read(name).splitlines()]
    found = [action["remove"] for action in actions if "remove" in action]
    assert expected
    assert {body["path"]: body["tags"] for body in found} == expected


def test_checkpoints_leave_them_out() -> None:
    race = race_with_vectors()
    report = race.run()
    table = Table(race.store.uri, store=race.store)
    table.checkpoint()
    (name,) = (
        n for n in race.store.contents() if n.endswith(f"{report.version_after}.checkpoint.parquet")
    )
    schema = pq.read_schema(race.store.open_input(name))
    assert "tags" not in schema.field("remove").type
