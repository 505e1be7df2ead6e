"""A scan gives each commit once to each visitor, and parses only what one of them needs."""

import pytest

from deltactl.errors import CorruptLogError, LogGapError, ObjectNotFoundError
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parsed import ParsedCommits
from deltactl.log.commits.visitors import Visitor
from deltactl.log.delta_log import DeltaLog
from tests.support.stores import CountingStore, fresh_store
from tests.support.table_builder import Column, TableBuilder, commit_path


class Noting(Visitor):
    """Note what a visitor gets; it needs the file actions of some commits."""

    def __init__(self, *needed: int) -> None:
        super().__init__()
        self.needed = needed
        self.seen: list[int | None] = []
        self.rows: list[tuple[int, str]] = []
        self.given: list[int] = []

    def see(self, commit: CommitBytes) -> bool:
        self.seen.append(commit.version)
        return commit.version in self.needed

    def visit(self, commits: ParsedCommits) -> None:
        self.given += commits.versions
        assert [it.version for it in commits.commits] == list(commits.versions)
        for files, kind in ((commits.adds, "add"), (commits.removes, "remove")):
            self.rows += [(version, kind) for version in files["version"].to_pylist()]


def build() -> TableBuilder:
    """Versions 1 to 4 add a file, version 5 removes one, version 6 adds two."""
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")])
    paths = [builder.append([{"id": number}])[0] for number in range(4)]
    builder.remove(paths[0])
    builder.append([{"id": 5}], [{"id": 6}])
    return builder


def open_log(builder: TableBuilder) -> tuple[DeltaLog, CountingStore]:
    store = CountingStore(builder.store)
    return DeltaLog(store, pytest.fail), store


def test_each_visitor_gets_the_actions_that_it_needs() -> None:
    log, store = open_log(build())
    some, others, none = Noting(1, 5), Noting(5, 6), Noting()
    log.scan(range(7), some, others, none)
    assert some.seen == others.seen == none.seen == list(range(7))
    assert some.rows == [(1, "add"), (5, "remove")]
    assert sorted(others.rows) == [(5, "remove"), (6, "add"), (6, "add")]
    assert (some.given, others.given, none.given) == ([1, 5], [5, 6], [])
    assert some.visited == others.visited == none.visited == set(range(7))
    assert store.names["read_many"] == [commit_path(version) for version in range(7)]


def test_a_visitor_gets_a_commit_once() -> None:
    builder = build()
    builder.checkpoint(3)
    log, store = open_log(builder)
    early, late = Noting(*range(7)), Noting(*range(7))
    log.snapshot(visitors=[early])
    assert early.seen == [4, 5, 6]
    log.scan([2, 3, 4], early)
    log.scan(range(1, 7), early, late)
    assert early.seen == [4, 5, 6, 2, 3, 1]
    assert early.given == [4, 5, 6, 2, 3, 1]
    assert late.given == late.seen == [1, 2, 3, 4, 5, 6]
    assert sorted(store.names["read_many"]) == [commit_path(version) for version in range(1, 7)]


def test_nothing_is_read_for_visitors_that_saw_all() -> None:
    log, store = open_log(build())
    noting = Noting()
    log.scan(range(7), noting)
    store.names.clear()
    log.scan(range(7), noting)
    assert "read" not in store.names
    assert not store.names.get("read_many")


def test_a_missing_commit_is_named() -> None:
    log, _ = open_log(build())
    with pytest.raises(LogGapError, match="7.json is missing"):
        log.scan([6, 7], Noting())


@pytest.mark.parametrize("broken", [0, 3, 6])
def test_broken_commits_are_told_and_the_others_given(broken: int) -> None:
    builder = build()
    builder.store.put(commit_path(broken), b'{"add":{"path"\n')
    log, _ = open_log(builder)
    noting, told = Noting(*range(7)), []
    log.scan(range(7), noting, on_broken=lambda commit, error: told.append((commit.version, error)))
    ((version, error),) = told
    assert (version, isinstance(error, CorruptLogError)) == (broken, True)
    assert noting.given == [version for version in range(7) if version != broken]
    assert broken not in noting.visited


def test_after_an_error_a_scan_continues_with_what_was_not_given() -> None:
    builder = build()
    log, _ = open_log(builder)
    assert log.listing.commits
    content = builder.store.read(commit_path(4))
    builder.store.delete_many([commit_path(4)])
    noting = Noting(*range(7))
    with pytest.raises(ObjectNotFoundError):
        log.scan(range(7), noting)
    assert 4 not in noting.visited
    builder.store.put(commit_path(4), content)
    log.update()
    log.scan(range(7), noting)
    assert sorted(noting.given) == list(range(7))
    assert sorted(noting.rows) == [
        *((version, "add") for version in range(1, 5)),
        (5, "remove"),
        (6, "add"),
        (6, "add"),
    ]
