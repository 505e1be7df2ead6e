"""`check` of deletion vectors: descriptors that lead nowhere, and which file a finding names."""

import re
from typing import Any

import pytest

from deltactl.errors import CorruptLogError, DataFileError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.check.options import Depth
from deltactl.parquet.data_file import iter_data_files
from deltactl.table import Table
from tests.support.checkpoints import fail, new_table
from tests.support.damage import DEEP, check, codes, edit_action, flip, only_file
from tests.support.table_builder import Column, TableBuilder, bitmap_bytes, z85

FIRST = "f00001.parquet"
MISSING: list[dict[str, Any]] = [
    {"sizeInBytes": None},
    {"cardinality": None},
    {"pathOrInlineDv": None},
    {"storageType": None},
]
NEGATIVE: list[dict[str, Any]] = [
    {"offset": -4},
    {"sizeInBytes": -1},
    {"offset": -(2**31), "sizeInBytes": -(2**31)},
]
TOO_FAR: list[dict[str, Any]] = [
    {"offset": 40},
    {"offset": 2**31 - 1},
    {"sizeInBytes": 2**31 - 1},
    {"offset": 2**31 - 1, "sizeInBytes": 2**31 - 1},
]


def deleted(kind: str = "u") -> TableBuilder:
    """Version 2: a row of the first of two files is deleted; the other's row count is a lie."""
    builder = new_table(Column("id"), features=["deletionVectors"])
    first = builder.write_file([{"id": 1}, {"id": 2}], name=FIRST)
    builder.commit(first, builder.write_file([{"id": 3}, {"id": 4}], stats='{"numRecords":9}'))
    builder.delete_rows(FIRST, [1], kind)
    return builder


def edit_vector(builder: TableBuilder, **changes: Any) -> None:
    changed = {**builder.find(FIRST)["deletionVector"], **changes}
    kept = {name: value for name, value in changed.items() if value is not None}
    edit_action(builder, 2, "add", deletionVector=kept)


@pytest.mark.parametrize("changes", [*MISSING, *NEGATIVE])
@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_other_commands_refuse_a_descriptor_that_leads_nowhere(
    kind: str, changes: dict[str, Any]
) -> None:
    builder = deleted(kind)
    edit_vector(builder, **changes)
    what = "inline deletion vector" if kind == "i" else only_file(builder, ".bin")
    said = rf"the offset .* of .*{what}" if changes in NEGATIVE else "lacks one of"
    with pytest.raises(CorruptLogError, match=said):
        list(iter_data_files(DeltaLog(builder.store, fail).snapshot().files))


@pytest.mark.parametrize("depth", [Depth.SIZES, Depth.DATA])
@pytest.mark.parametrize("changes", [*MISSING, *NEGATIVE, {"storageType": "x"}])
def test_a_descriptor_that_leads_nowhere(changes: dict[str, Any], depth: Depth) -> None:
    """It is found at any depth, and the check goes on."""
    builder = deleted()
    edit_vector(builder, **changes)
    report = check(builder.store, depth=depth, vectors=True)
    found = report.findings.to_pylist()[-1]
    assert (found["code"], found["file"]) == ("VECTOR_UNREADABLE", FIRST)
    assert ("storage type 'x'" in found["problem"]) == (changes == {"storageType": "x"})
    assert ("STATS_ROWS" in codes(report)) == (depth is Depth.DATA)
    assert report.notes == ()


@pytest.mark.parametrize("changes", TOO_FAR)
def test_a_vector_past_the_end_of_its_file(changes: dict[str, Any]) -> None:
    builder = deleted()
    edit_vector(builder, **changes)
    report = check(builder.store, **DEEP)
    assert codes(report) == ["STATS_ROWS", "VECTOR_UNREADABLE"]
    assert report.findings.to_pylist()[-1]["file"] == only_file(builder, ".bin")


@pytest.mark.parametrize("changes", [{"offset": 2**40}, {"sizeInBytes": 2**63}])
def test_numbers_that_the_log_has_no_room_for(changes: dict[str, Any]) -> None:
    builder = deleted()
    edit_vector(builder, **changes)
    assert codes(check(builder.store, **DEEP)) == ["COMMIT_UNREADABLE"]


def break_the_checksum(builder: TableBuilder) -> None:
    flip(builder.store, only_file(builder, ".bin"), -1)


def change_the_format(builder: TableBuilder) -> None:
    name = only_file(builder, ".bin")
    builder.store.put(name, b"\2" + builder.store.read(name)[1:])


def miscount(builder: TableBuilder) -> None:
    edit_vector(builder, cardinality=2)


@pytest.mark.parametrize(
    ("code", "damage", "problem"),
    [
        ("VECTOR_UNREADABLE", break_the_checksum, "checksum does not match"),
        ("VECTOR_UNREADABLE", change_the_format, "has version 2 of the format"),
        ("VECTOR_CARDINALITY", miscount, "deletes 1 rows, but the log has 2"),
    ],
)
def test_a_vector_in_a_file_is_found_under_that_file(code: str, damage: Any, problem: str) -> None:
    builder = deleted()
    damage(builder)
    found = check(builder.store, **DEEP).findings.to_pylist()[-1]
    name = only_file(builder, ".bin")
    assert (found["code"], found["file"]) == (code, name)
    assert found["problem"].startswith(f"the deletion vector of {FIRST} ")
    assert problem in found["problem"]
    assert f"restore {name} from a backup" in found["repair"]
    with pytest.raises(DataFileError, match=re.escape(name)):
        Table("x", store=builder.store).scan().read_all()
    with pytest.raises(DataFileError, match=re.escape(name)):
        Table("x", store=builder.store).optimize(purge=True)


@pytest.mark.parametrize("kind", ["u", "p", "i"])
def test_a_vector_that_reaches_past_its_data_file(kind: str) -> None:
    builder = deleted(kind)
    builder.delete_rows(FIRST, [7], kind)
    found = check(builder.store, **DEEP).findings.to_pylist()[-1]
    assert found["code"] == "VECTOR_ROWS"
    assert "deletes row 7, but the data file has 2 rows" in found["problem"]
    if kind == "i":
        assert found["file"] == FIRST
    else:
        assert found["file"].endswith(".bin")
        assert found["problem"].startswith(f"the deletion vector of {FIRST} ")


def test_an_inline_vector_is_in_the_log() -> None:
    builder = deleted("i")
    payload = bitmap_bytes([1])
    edit_vector(builder, pathOrInlineDv=z85(payload[:4] + b"\xff" * (len(payload) - 4)))
    found = check(builder.store, **DEEP).findings.to_pylist()[-1]
    assert (found["code"], found["file"]) == ("VECTOR_UNREADABLE", FIRST)
    assert found["problem"].startswith("its inline deletion vector cannot be read")
