"""A small simulated fleet, local and on MinIO; ``make fleet`` has 300 tables and three seeds."""

from pathlib import Path

import pytest

from tests.operations.maintain.fleet import build_fleets, compare, finish
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import choose_servers


@pytest.mark.slow  # `make fleet` runs it with more tables
@pytest.mark.parametrize("server", choose_servers("minio"), indirect=True)
def test_a_small_fleet(server: ObjectServer, tmp_path: Path) -> None:
    ranked, by_name = build_fleets(tmp_path, server, 12, seed=7)
    figures = compare(ranked, by_name, seed=7)
    finish(ranked)
    assert figures.small_before > 400
    assert {table.kind for table in ranked.tables} >= {"broken", "hot", "deletes", "cold"}
    kinds = {"://" in address for address in ranked.addresses.values()}
    assert kinds == {True, False}
