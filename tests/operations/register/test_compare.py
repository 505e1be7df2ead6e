from dataclasses import replace

import pytest

from deltactl.catalog.base import Column, TableAddress
from deltactl.operations.register.compare import compare

LONG = "one\ntwo " + "x" * 300


def entry(name: str, *columns: Column) -> TableAddress:
    return TableAddress(name, "it", None, "EXTERNAL_TABLE", "DELTA", "/lake", columns=columns)


@pytest.mark.parametrize(("scheme", "kept"), [("hive", 248), ("glue", 247)])
def test_a_comment_that_is_longer_than_what_is_written_does_not_differ(
    scheme: str, kept: int
) -> None:
    found = entry(f"{scheme}://db.t", Column("id", "bigint", LONG))
    wanted = replace(found, columns=(Column("id", "bigint", "one two " + "x" * kept),))
    assert list(compare(wanted, found)) == []
    other = replace(found, columns=(Column("id", "bigint", "another"),))
    assert [it.what for it in compare(other, found)] == ["column id"]


def test_a_column_that_is_there_twice_differs() -> None:
    wanted = entry("hive://db.t", Column("id", "bigint"))
    found = entry("hive://db.t", Column("id", "bigint"), Column("ID", "bigint"))
    [difference] = compare(wanted, found)
    assert (difference.what, difference.is_small) == ("column id", True)
