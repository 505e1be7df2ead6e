"""Tables that break a rule of Iceberg compatibility themselves are refused by name."""

import re

import pytest

from deltactl.errors import UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.features import Operation, ensure_supported
from deltactl.protocol.iceberg import ROW_TRACKING_IDS
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder, array_of

_IDS = "delta.columnMapping.nested.ids"
_LIST = array_of("long")


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
def test_rules(
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
    snapshot = DeltaLog(builder.store, print).snapshot()
    ensure_supported(snapshot.protocol, snapshot.metadata, Operation.VACUUM)
    if problem is None:
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
        return
    with pytest.raises(UnsupportedFeatureError, match=re.escape(problem)):
        ensure_supported(snapshot.protocol, snapshot.metadata, Operation.REWRITE)
