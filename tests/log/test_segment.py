from collections.abc import Iterator
from functools import partial

import pytest

from deltactl.errors import LogGapError, NotATableError, VersionNotFoundError, Warn
from deltactl.log.listing import LogListing, list_log
from deltactl.log.segment import list_from_hint, select_segment
from deltactl.storage.store import FileInfo, Store
from tests.support.stores import CountingStore, MemoryStore

HINT = "_delta_log/_last_checkpoint"


def store_with(*names: str) -> MemoryStore:
    store = MemoryStore(f"memory://segment/{abs(hash(names))}")
    store.restore({f"_delta_log/{_name(name)}": b"x" for name in names})
    return store


def _name(short: str) -> str:
    """``3.json`` with its zeros; part numbers have theirs already."""
    version, _, rest = short.partition(".")
    if rest.endswith("compacted.json"):
        second, _, rest = rest.partition(".")
        rest = f"{int(second):020d}.{rest}"
    return f"{int(version):020d}.{rest}" if version.isdigit() else short


def chosen(store: MemoryStore, version: int | None = None) -> tuple[int, list[str]]:
    segment = select_segment(list_log(store), version)
    short = [info.name.rpartition("/")[2].lstrip("0") or "0" for info in segment.tail]
    return segment.checkpoint_version, short


def commits(first: int, last: int) -> list[str]:
    return [f"{version}.json" for version in range(first, last + 1)]


def test_without_a_checkpoint_all_commits_from_0_are_chosen() -> None:
    assert chosen(store_with(*commits(0, 2))) == (-1, [".json", "1.json", "2.json"])
    assert chosen(store_with(*commits(0, 2)), 1) == (-1, [".json", "1.json"])


def test_the_newest_checkpoint_at_or_below() -> None:
    store = store_with(*commits(0, 6), "2.checkpoint.parquet", "5.checkpoint.parquet")
    assert chosen(store) == (5, ["6.json"])
    assert chosen(store, 5) == (5, [])
    assert chosen(store, 4) == (2, ["3.json", "4.json"])
    assert chosen(store, 1) == (-1, [".json", "1.json"])


def test_an_incomplete_checkpoint_is_none() -> None:
    part = "2.checkpoint.0000000001.0000000002.parquet"
    assert chosen(store_with(*commits(0, 3), part))[0] == -1
    whole = store_with(*commits(0, 3), part, "2.checkpoint.0000000002.0000000002.parquet")
    assert chosen(whole) == (2, ["3.json"])
    empty = store_with(*commits(0, 3), "2.checkpoint.parquet")
    empty.put(f"_delta_log/{2:020d}.checkpoint.parquet", b"")
    assert chosen(empty)[0] == -1
    odd = store_with(*commits(0, 3), "2.checkpoint.0000000003.0000000002.parquet")
    assert chosen(odd)[0] == -1


def test_a_classic_checkpoint_is_preferred_at_the_same_version() -> None:
    store = store_with(*commits(0, 3), "2.checkpoint.abc.json", "2.checkpoint.parquet")
    segment = select_segment(list_log(store))
    assert segment.checkpoint is not None
    assert segment.checkpoint.names == (f"_delta_log/{2:020d}.checkpoint.parquet",)


def test_a_checkpoint_alone_is_a_version() -> None:
    store = store_with("4.checkpoint.parquet")
    segment = select_segment(list_log(store))
    assert (segment.version, segment.commit, segment.tail) == (4, None, ())


def test_compacted_files_do_not_stand_in_for_commits() -> None:
    store = store_with(*commits(0, 3), "1.3.compacted.json")
    assert chosen(store) == (-1, [".json", "1.json", "2.json", "3.json"])
    with pytest.raises(LogGapError, match="commits 1, 2 are missing"):
        chosen(store_with("0.json", "1.2.compacted.json", "3.json"))


def test_a_gap_error_lists_the_missing_commits() -> None:
    with pytest.raises(LogGapError, match="from version 0 .*: commits 1, 2 are missing"):
        chosen(store_with("0.json", "3.json"))
    with pytest.raises(LogGapError, match="from the checkpoint of version 3: commit 4 is missing"):
        chosen(store_with("3.checkpoint.parquet", "5.json"))
    with pytest.raises(LogGapError, match=r"commits 1, 2, 3, 4, 5, \.\.\. are missing"):
        chosen(store_with("0.json", "9.json"))


def test_an_extra_file_of_a_huge_version_is_a_gap() -> None:
    with pytest.raises(LogGapError, match=r"3, 4, 5, 6, 7, \.\.\. are missing"):
        chosen(store_with(*commits(0, 2), f"{2**62}.json"))


def test_versions_there_are_not() -> None:
    store = store_with(*commits(0, 2))
    for version in (3, -1):
        with pytest.raises(VersionNotFoundError, match="latest is 2"):
            chosen(store, version)
    with pytest.raises(NotATableError):
        chosen(store_with("_commits_.txt"))


def hinted(store: Store, warn: Warn, version: int | None = None) -> LogListing:
    return list_from_hint(partial(list_log, store), store, warn, version)[0]


def test_the_hint_spares_the_older_part_of_a_listing() -> None:
    store = store_with(*commits(0, 6), "2.checkpoint.parquet", "5.checkpoint.parquet")
    store.put(HINT, b'{"version":5,"size":1}')
    assert hinted(store, pytest.fail).start_version == 5
    assert hinted(store, pytest.fail, 6).start_version == 5
    assert hinted(store, pytest.fail, 4).start_version == 0


@pytest.mark.parametrize("version", [4, 7, 10**19])
def test_a_hint_that_points_at_nothing(version: int) -> None:
    store = store_with(*commits(0, 6), "2.checkpoint.parquet")
    store.put(HINT, b'{"version":%d}' % version)
    warnings: list[str] = []
    listing, lost = list_from_hint(partial(list_log, store), store, warnings.append)
    assert (listing.start_version, len(warnings)) == (0, int(version < 7))
    assert (lost is not None) == (version > 6)


class Overtaking(CountingStore):
    """Each listing leaves out one commit that was put while it went on, and shows a later one."""

    def __init__(self, inner: MemoryStore, *unseen: int) -> None:
        super().__init__(inner)
        self._unseen = list(unseen)

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        hidden = f"{self._unseen.pop(0):020d}.json" if self._unseen else ""
        return (i for i in super().list_from(prefix, start) if not i.name.endswith(hidden or "/"))


@pytest.mark.parametrize(
    ("unseen", "listings"), [((), 1), ((3,), 2), ((0,), 2), ((2, 3), 3), ((4,), 1)]
)
def test_a_commit_that_a_listing_missed_is_looked_for_again(
    unseen: tuple[int, ...], listings: int
) -> None:
    store = Overtaking(store_with(*commits(0, 4)), *unseen)
    found = list_log(store)
    assert set(found.commits) == set(range(5)) - ({4} if unseen == (4,) else set())
    assert store.calls["list_from"] == listings


def test_a_commit_that_is_missing_is_missed_twice() -> None:
    store = Overtaking(store_with(*commits(0, 1), *commits(3, 4)))
    assert set(list_log(store).commits) == {0, 1, 3, 4}
    assert store.calls["list_from"] == 2


def test_what_lies_below_a_checkpoint_may_be_missing() -> None:
    store = Overtaking(store_with("0.json", "2.json", "3.checkpoint.parquet", "3.json", "4.json"))
    assert 1 not in list_log(store).commits
    assert store.calls["list_from"] == 1
