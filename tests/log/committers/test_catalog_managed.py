"""Commits that a catalog ratifies: no version is lost or doubled, whatever fails and when."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from deltactl.catalog.managed import BacklogFullError, RatifiedCommit
from deltactl.errors import (
    CommitOutcomeUnknownError,
    LogGapError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
)
from deltactl.log.committers.catalog_managed import CatalogManaged
from deltactl.log.committers.committer import CommitFacts, Permission
from deltactl.log.listing import list_log
from deltactl.protocol.actions import DomainMetadata
from tests.support.forwarding import ForwardingStore
from tests.support.managed_scene import STAGED, Scene, content
from tests.support.table_builder import commit_path


def test_a_commit_is_staged_ratified_published_and_reported() -> None:
    scene = Scene()
    assert scene.commit("a") == commit_path(scene.first)
    assert scene.staged() == ["a"]
    assert scene.published(scene.first) == "a"
    assert scene.catalog.reported == scene.first
    assert scene.log().snapshot().version == scene.first


def test_the_catalog_gets_domains_that_a_commit_sets() -> None:
    scene, domain = Scene(), DomainMetadata("delta.rowTracking", '{"rowIdHighWaterMark":3}')
    facts = CommitFacts("a", 5, domains=(domain,))
    scene.committer().commit(scene.first, content("a"), facts)
    assert scene.catalog.domains == [domain]
    with pytest.raises(SafetyError, match="no in-commit timestamps"):
        scene.committer().commit(scene.first + 1, content("b"), CommitFacts("b"))


def test_a_file_that_lost_is_deleted_if_the_catalog_names_the_file_that_won() -> None:
    scene = Scene()
    scene.ratify_unpublished("other")
    assert scene.commit("a", scene.first) is None
    scene.log().update()
    assert scene.log().listing.commits[scene.first].name.endswith(".other.json")
    assert scene.staged() == ["other"]
    assert scene.commit("b", scene.first) is None, "published, and no longer named"
    assert scene.staged() == ["b", "other"], "only the published file shows who won"
    assert scene.published(scene.first) == "other"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("request_name", ["load", "add_commit", "report_published"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_answer_is_settled_by_the_name_of_the_file(
    when: str, request_name: str, times: int
) -> None:
    scene, left = Scene(), [times]

    def answer(now: str, request: str) -> None:
        if (now, request) == (when, request_name) and left[0]:
            left[0] -= 1
            raise StorageError("no answer")

    committer = scene.committer(warn=lambda _: None)
    scene.catalog.answer = answer
    name = scene.commit("a", committer=committer)
    scene.catalog.answer = lambda now, request: None
    assert name is not None and "a" in scene.staged()
    assert scene.log().snapshot().version == scene.first == scene.catalog.latest
    assert scene.published(scene.first) == "a", "the log that may write finished it"


def test_an_answer_to_the_second_of_two_equal_requests_is_no_defeat() -> None:
    scene = Scene(twice=True)
    assert scene.commit("a") is not None
    assert scene.staged() == ["a"]
    assert scene.catalog.reported == scene.first


def test_a_catalog_that_never_answers_leaves_the_outcome_unknown() -> None:
    scene = Scene()
    committer = scene.committer()
    committer.load()
    answer = Mock(side_effect=StorageError("no answer"))
    scene.catalog.answer = answer
    with pytest.raises(CommitOutcomeUnknownError):
        scene.commit("a", committer=committer)
    assert scene.staged() == ["a"], "it may be ratified"


def test_a_full_backlog_is_published_in_order_and_reported() -> None:
    scene = Scene(most=3)
    for name in "abc":
        scene.ratify_unpublished(name)
    assert scene.commit("d") is not None
    assert [scene.published(scene.first + number) for number in range(4)] == list("abcd")
    assert scene.catalog.reported == scene.first + 3


@pytest.mark.parametrize("lost", [False, True])
def test_a_busy_catalog_without_a_backlog_is_no_unknown_outcome(lost: bool) -> None:
    """Unless the answer to another attempt was lost."""
    scene, left = Scene(most=0), [lost]

    def answer(now: str, request: str) -> None:
        if request == "add_commit" and left[0]:
            left[0] = False
            raise StorageError("no answer")

    scene.catalog.answer = answer
    with pytest.raises(CommitOutcomeUnknownError if lost else BacklogFullError, match="too many"):
        scene.commit("a")
    assert scene.staged() == ["a"]


def test_a_published_file_that_differs_stops_publishing_and_reports() -> None:
    scene, warnings = Scene(), list[str]()
    scene.ratify_unpublished("a")
    scene.store.put(commit_path(scene.first), content("rogue"))
    scene.ratify_unpublished("b")
    log = scene.log(warnings.append)
    assert log.snapshot().version == scene.first + 1
    assert log.listing.commits[scene.first].name.endswith(".a.json"), "the name of the catalog"
    assert "differs from" in warnings[0]
    assert scene.catalog.reported == scene.first - 1
    assert scene.store.stat_many([commit_path(scene.first + 1)]) == [None]
    assert log.published_version == scene.first - 1


@pytest.mark.parametrize("is_same", [True, False])
def test_a_staged_file_that_another_writer_published_and_removed(is_same: bool) -> None:
    scene, warnings = Scene(), list[str]()
    version = scene.ratify_unpublished("a")
    scene.store.put(commit_path(version), content("a" if is_same else "rogue"))
    [info] = scene.store.list_from(STAGED)
    scene.store.delete_many([info.name])
    scene.committer(warn=warnings.append).tail(may_write=True)
    assert scene.catalog.reported == (version if is_same else version - 1)
    assert len(warnings) == (not is_same)


def test_a_reader_publishes_nothing() -> None:
    scene = Scene()
    scene.ratify_unpublished("a")
    log = scene.log(read_only=True)
    assert log.snapshot().version == scene.first
    assert log.published_version == scene.first - 1
    assert scene.store.stat_many([commit_path(scene.first)]) == [None]


def test_versions_that_nobody_ratified_are_ignored() -> None:
    scene, warnings = Scene(), list[str]()
    scene.store.put(commit_path(scene.first), content("rogue"))
    log = scene.log(warnings.append, read_only=True)
    assert log.snapshot().version == scene.first - 1
    assert len(warnings) == 1 and "did not ratify" in warnings[0]
    with pytest.raises(SafetyError, match="has version 2, but the latest .* knows is 1"):
        scene.log().snapshot()


def test_a_version_that_nobody_ratified_is_not_committed_again() -> None:
    """It was published after the listing of the run."""
    scene = Scene()
    committer = scene.committer()
    committer.load()
    scene.store.put(commit_path(scene.first), content("rogue"))
    with pytest.raises(SafetyError, match="another catalog owns the table"):
        scene.commit("a", committer=committer)
    assert scene.catalog.latest == scene.first - 1
    scene.store.delete_many([commit_path(scene.first)])
    scene.commit("b")
    scene.catalog.reported = scene.first
    assert scene.commit("c", scene.first, committer) is None, "the catalog knows the published one"


@pytest.mark.parametrize("read_only", [True, False])
def test_a_commit_between_the_catalog_and_the_listing_is_no_warning(read_only: bool) -> None:
    scene, calls = Scene(), list[str]()

    def answer(now: str, request: str) -> None:
        if now == "after" and request == "load":
            calls.append(request)
            if len(calls) == 1:
                scene.commit("late")

    scene.catalog.answer = answer
    assert scene.log(read_only=read_only).snapshot().version == scene.first


def test_a_version_that_the_catalog_has_and_the_log_lacks_is_an_error() -> None:
    scene = Scene()
    scene.catalog.latest += 1
    with pytest.raises(LogGapError, match="is the latest"):
        scene.log().snapshot()


def test_another_table_of_the_same_name_is_refused() -> None:
    scene = Scene()
    log = scene.log()
    log.snapshot()
    scene.catalog.table_uuid = "other"
    log.update()
    with pytest.raises(StorageError, match="no longer the table"):
        log.snapshot()


def test_a_name_outside_of_the_staged_commits_is_refused() -> None:
    scene = Scene()
    version = scene.first
    scene.catalog.ratified[version] = RatifiedCommit(version, f"../{version:020d}.json", 1, 0, 0)
    scene.catalog.latest = version
    with pytest.raises(StorageError, match="does not name a staged commit"):
        scene.log().snapshot()


def test_permissions() -> None:
    scene = Scene(allowed=frozenset({"DATA_CLEANUP", "SOMETHING_NEW"}))
    scene.log().ensure_can_commit(Permission.CLEAN_DATA)
    for permission in (Permission.REORGANIZE_DATA, Permission.CLEAN_LOG):
        with pytest.raises(UnsupportedFeatureError, match=permission):
            scene.log().ensure_allowed(permission)
        scene.log(read_only=True).ensure_allowed(permission)
    with pytest.raises(UnsupportedFeatureError, match="catalogManaged"):
        scene.log().ensure_can_commit()
    scene.catalog.is_uniform = True
    with pytest.raises(UnsupportedFeatureError, match="universalFormat"):
        scene.log().ensure_can_commit(Permission.CLEAN_DATA)


def test_racing_writers_win_each_version_once() -> None:
    scene = Scene(most=3)

    def run(number: int) -> list[int]:
        committer, won, version = scene.committer(), list[int](), scene.first
        while len(won) < 4:
            if scene.commit(f"{number}-{version}", version, committer) is not None:
                won.append(version)
            version += 1
        return won

    with ThreadPoolExecutor(4) as pool:
        won = sorted(version for part in pool.map(run, range(4)) for version in part)
    assert won == [*range(scene.first, scene.first + 16)]
    assert scene.log().snapshot().version == won[-1]
    ratified = {commit.file_name.split(".")[1] for commit in scene.catalog.ratified.values()}
    assert ratified <= set(scene.staged())


class Crash(BaseException):
    """The process ends."""


class CrashingStore(ForwardingStore):
    """Calls ``step`` before and after each call that a committer makes."""

    step: Callable[[str, str], None]


def _forward(name: str) -> Callable[..., Any]:
    def call(self: CrashingStore, *args: Any) -> Any:
        self.step("before", name)
        found = getattr(self._inner, name)(*args)
        self.step("after", name)
        return found

    return call


for _name in (
    "put", "put_if_absent", "stat_many", "read", "read_ranges", "delete_many", "sync_directories",
):  # fmt: skip
    setattr(CrashingStore, _name, _forward(_name))


def _crash_at_each_step(act: Callable[[Scene, CatalogManaged], None]) -> Iterator[Scene]:
    """Yield the scene after a crash at each step of an act, and at last after none."""
    last = 0
    while True:
        last += 1
        scene, taken, last_step = Scene(), list[str](), last

        def step(when: str, name: str, taken: list[str] = taken, most: int = last_step) -> None:
            taken.append(name)
            if len(taken) == most:
                raise Crash(f"{when} {name}")

        store = CrashingStore(scene.store)
        scene.ratify_unpublished("old")
        committer = scene.committer(store)
        store.step = scene.catalog.answer = step
        try:
            act(scene, committer)
            done = True
        except Crash:
            done = False
        scene.catalog.answer = lambda when, name: None
        yield scene
        if done:
            assert last > 10, "the steps are counted"
            return


def _check(scene: Scene, names: Sequence[str]) -> None:
    """Check what the next run reads, and what readers of the published log read."""
    latest = scene.catalog.latest
    for version in range(scene.first, scene.catalog.reported + 1):
        ratified = scene.catalog.ratified[version]
        assert ratified.file_name.split(".")[1] == scene.published(version)
    before = list_log(scene.store).latest_version
    assert before is not None and before <= latest
    assert scene.log(read_only=True).snapshot().version == latest
    assert scene.log().snapshot().version == latest
    assert scene.catalog.reported == latest
    found = [scene.published(version) for version in range(scene.first, latest + 1)]
    assert found == list(names)[: len(found)]
    for version in range(scene.first, latest + 1):
        assert scene.catalog.ratified[version].file_name.split(".")[1] in scene.staged()


def test_after_a_crash_at_any_call_the_next_run_finishes() -> None:
    for scene in _crash_at_each_step(lambda scene, it: void(scene.commit("a", committer=it))):
        _check(scene, ["old", "a"])


def test_after_a_crash_of_a_writer_that_lost_the_winner_is_there() -> None:
    for scene in _crash_at_each_step(
        lambda scene, it: void(scene.commit("a", scene.first, committer=it))
    ):
        _check(scene, ["old"])


def void(_: object) -> None:
    """Drop a result."""
