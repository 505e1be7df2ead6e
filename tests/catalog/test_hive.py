"""Addresses of a Hive metastore, and requests that a stub answers."""

from typing import Any

import pytest

from deltactl.catalog.base import TableAddress
from deltactl.catalog.hive import HiveCatalog, connect
from deltactl.catalog.thrift import Kind
from deltactl.errors import UsageError

WANTED = TableAddress(
    "hive://sales.orders", "Hive", None, "EXTERNAL_TABLE", "DELTA", "/lake/orders"
)


@pytest.fixture
def catalog() -> HiveCatalog:
    return connect("127.0.0.1:1", {})


def test_no_answer_has_all_partitions(
    catalog: HiveCatalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"day={number}" for number in range(250)]
    asked: list[int] = []

    def describe(name: str) -> dict[int, Any]:
        value = name.removeprefix("day=")
        storage = {2: (Kind.STRING, f"/lake/{name}")} if value != "7" else {}
        return {1: (Kind.LIST, (Kind.STRING, [value])), 6: (Kind.STRUCT, storage)}

    def answer(address: tuple[str, int], method: str, *arguments: Any) -> Any:
        if method == "get_partition_names":
            return Kind.STRING, names
        assert method == "get_partitions_by_names"
        page = arguments[2][1][1]
        asked.append(len(page))
        return Kind.STRUCT, [describe(name) for name in page]

    monkeypatch.setattr("deltactl.catalog.hive.call", answer)
    found = catalog.partitions(WANTED)
    assert asked == [100, 100, 50]
    assert len(found) == 250
    assert (found[("3",)], found[("7",)]) == ("/lake/day=3", "")


@pytest.mark.parametrize(
    "uris",
    ["thrift://secret@h", "thrift://u:secret@h:9083", "h:99999", "h:²", "h:-1", "thrift://", "a/b"],
)
def test_what_is_no_address_of_a_metastore_is_refused(uris: str) -> None:
    with pytest.raises(UsageError, match="not the address of a Hive metastore") as raised:
        connect("", {"uris": uris})
    assert "secret" not in raised.value.message
