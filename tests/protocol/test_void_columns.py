"""Files cannot have void in arrays, maps and structs alone: such tables are refused at once."""

import re

import pytest

from deltactl.errors import UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.features import Operation, ensure_supported
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, array_of, map_of, struct_of

_VOIDS = struct_of(Column("a", "void"), Column("b", "void"))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ([Column("v", "void")], "void columns alone"),
        ([Column("id"), Column("v", array_of("void"))], "void in an array of column 'v'"),
        ([Column("id"), Column("v", map_of("string", "void"))], "void in a map of column 'v'"),
        ([Column("id"), Column("v", array_of(_VOIDS))], "a struct of void fields alone"),
        ([Column("id"), Column("v", "void")], None),
        ([Column("id"), Column("v", struct_of(Column("a", "void"), Column("b")))], None),
    ],
)  # fmt: skip
def test_void(columns: list[Column], problem: str | None) -> None:
    snapshot = DeltaLog(TableBuilder(fresh_store(), columns).store, print).snapshot()
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.CHECKPOINT)
    if problem is None:
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
        return
    with pytest.raises(UnsupportedFeatureError, match=re.escape(problem)):
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
