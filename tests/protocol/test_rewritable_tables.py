"""Tables that break a rule of Iceberg, or have void where files cannot, are not rewritten."""

import re

import pytest

from deltactl.errors import UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.iceberg import ROW_TRACKING_IDS
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, array_of, map_of, struct_of

_IDS = "delta.columnMapping.nested.ids"
_LIST = array_of("long")
_VOIDS = struct_of(Column("a", "void"), Column("b", "void"))


def ensure_judged(builder: TableBuilder, allowed: Operation, problem: str | None) -> None:
    """An operation is allowed, and a rewrite only if there is no problem."""
    snapshot = DeltaLog(builder.store, print).snapshot()
    ensure_supported(snapshot.protocol, snapshot.metadata, allowed)
    if problem is None:
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
        return
    with pytest.raises(UnsupportedFeatureError, match=re.escape(problem)):
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)


@pytest.mark.parametrize(
    ("version", "mapping", "column", "features", "problem"),
    [
        (1, "none", Column("x"), [], "icebergCompatV1 without column mapping"),
        (1, "name", Column("x", _LIST), [], "'x', which is an array or map"),
        (1, "name", Column("x", "void"), [], "'x', which is void"),
        (2, "name", Column("x", array_of("void")), [], "'x', which is void"),
        (2, "name", Column("x", _LIST), [], "'x', whose elements have no field ids"),
        (2, "id", Column("x", _LIST, True, {_IDS: {"col-0002.element": 1}}), [],
         "icebergCompatV2 with the field id 1 for 2 fields"),
        (2, "id", Column("x", _LIST, True, {_IDS: {"col-0002.element": 3}}), [], None),
        (3, "name", Column("x"), [], "icebergCompatV3 without row tracking"),
        (3, "name", Column("x"), ["rowTracking"], None),
        (3, "name", Column("x", _LIST, True, {_IDS: {"col-0002.element": ROW_TRACKING_IDS[0]}}),
         ["rowTracking"], "icebergCompatV3 with the field id 2147483540 for 2 fields"),
        (3, "id", Column("x"), ["rowTracking", "icebergWriterCompatV3"], None),
        (2, "none", Column("x"), ["icebergWriterCompatV1"], "without column mapping"),
    ],
)  # fmt: skip
def test_rules_of_iceberg_compatibility(
    version: int, mapping: str, column: Column, features: list[str], problem: str | None
) -> None:
    features = [*features, f"icebergCompatV{version}"]
    builder = TableBuilder(
        fresh_store(),
        [Column("id"), column],
        mapping=mapping,
        features=features,
        properties={f"delta.enable{it[0].upper()}{it[1:]}": "true" for it in features},
    )
    ensure_judged(builder, Operation.VACUUM, problem)


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
    """Files cannot have void in arrays, maps and structs alone."""
    ensure_judged(TableBuilder(fresh_store(), columns), Operation.CHECKPOINT, problem)
