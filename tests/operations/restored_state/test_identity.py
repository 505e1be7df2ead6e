"""High-water marks of identity columns after a restore."""

import json
from typing import Any

import pytest

from tests.support.restores import bodies, memory_table, restore
from tests.support.table_builder import Column


def identity(mark: int | None, step: int = 1) -> Column:
    facts: dict[str, Any] = {"delta.identity.start": 1, "delta.identity.step": step}
    if mark is not None:
        facts["delta.identity.highWaterMark"] = mark
    return Column("id", metadata=facts)


@pytest.mark.parametrize(
    ("old", "now", "step", "kept"),
    [(5, 9, 1, 9), (None, 9, 1, 9), (9, 5, 1, 9), (-5, -9, -1, -9), (5, None, 1, 5)],
)
def test_marks_of_identity_columns(old: int | None, now: int | None, step: int, kept: int) -> None:
    builder = memory_table(identity(old, step))
    builder.append([{"id": 1}])
    builder.change_metadata(columns=[identity(now, step), Column("b")])
    restore(builder.store, 1)
    (metadata,) = bodies(builder.store, 3, "metaData")
    (field,) = json.loads(metadata["schemaString"])["fields"]
    assert field["metadata"]["delta.identity.highWaterMark"] == kept
