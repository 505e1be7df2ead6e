"""A history by path looks for catalogManaged in few files, and is not misled by a stale one."""

import json
import re

import pytest

from deltactl.log.delta_log import DeltaLog
from deltactl.log.history.read import Selection
from tests.support.stores import CountingStore, fresh_store
from tests.support.table_builder import LOG, Action, Column, TableBuilder

_READS = ("read", "read_many", "read_ranges", "read_tail", "open_input")


def make(*features: str, commits: int = 20) -> TableBuilder:
    properties = {"delta.enableInCommitTimestamps": "true"}
    names = ["inCommitTimestamp", *features]
    builder = TableBuilder(fresh_store(), [Column("id")], features=names, properties=properties)
    for number in range(commits):
        builder.append([{"id": number}])
    return builder


def write_checksum(builder: TableBuilder, protocol: Action | None, *, age_ms: int = 0) -> None:
    name = f"{LOG}/{builder.version:020d}"
    first = json.loads(builder.store.read(f"{name}.json").splitlines()[0])
    timestamp = first["commitInfo"]["inCommitTimestamp"] - age_ms
    node = {"protocol": protocol, "inCommitTimestampOpt": timestamp}
    builder.store.put(f"{name}.crc", json.dumps(node).encode())


def show(builder: TableBuilder, limit: int | None = 2) -> tuple[bool, list[str]]:
    """Whether the history warns that a catalog may know more, and the files that were read."""
    store, warnings = CountingStore(builder.store), list[str]()
    log = DeltaLog(store, warnings.append, published_only=True, read_only=True)
    log.history(Selection(limit=limit))
    assert ["may know newer" in it for it in warnings] in ([], [True])
    read = [name for method in _READS for name in store.names.get(method, ())]
    return log.is_published_only, sorted(re.sub(rf"{LOG}/0*(?=\d)", "", name) for name in read)


@pytest.mark.parametrize("features", [(), ("catalogManaged",)])
def test_a_checksum_file_of_the_latest_version_is_enough(features: tuple[str, ...]) -> None:
    builder = make(*features)
    write_checksum(builder, builder.state.protocol)
    assert show(builder) == (bool(features), ["19.json", "20.crc", "20.json"])


@pytest.mark.parametrize("features", [(), ("catalogManaged",)])
@pytest.mark.parametrize("checksum", ["stale", "older", "broken", "absent"])
def test_without_one_the_commits_decide(features: tuple[str, ...], checksum: str) -> None:
    builder = make(*features)
    wrong = make(*([] if features else ["catalogManaged"]), commits=0).state.protocol
    if checksum == "stale":
        write_checksum(builder, wrong, age_ms=1)
    if checksum == "older":
        write_checksum(builder, wrong)
        builder.append([{"id": 99}])
    if checksum == "broken":
        builder.store.put(f"{LOG}/{builder.version:020d}.crc", b"{")
    is_managed, read = show(builder)
    assert is_managed == bool(features)
    commits = [name for name in read if name.endswith(".json")]
    assert commits == sorted(f"{v}.json" for v in range(builder.version + 1))


@pytest.mark.parametrize("features", [(), ("catalogManaged",)])
def test_the_checkpoint_before_the_commits_is_enough(features: tuple[str, ...]) -> None:
    builder = make(*features)
    builder.checkpoint(17)
    is_managed, read = show(builder)
    assert is_managed == bool(features)
    assert [n for n in read if n.endswith(".json")] == ["18.json", "19.json", "20.json"]


def test_the_newest_protocol_counts() -> None:
    builder = make()
    write_checksum(builder, builder.state.protocol)
    builder.commit({"protocol": make("catalogManaged", commits=0).state.protocol})
    builder.append([{"id": 99}])
    assert show(builder)[0]
