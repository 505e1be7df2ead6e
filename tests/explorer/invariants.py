"""Check the invariants of ``docs/consistency.md``, which are true for every order of events.

A simple reader checks them in every world that is reached. ``ConsistentRead``: every version is the
result of all commits up to it, applied one after the other.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tests.explorer import naive
from tests.explorer.machine import Checks, State
from tests.explorer.programs import Outcome, Program, owner_of
from tests.explorer.reading import Reading, Rows, Version, commit_info
from tests.explorer.world import CLONE, DECISIONS, LOG, Entry, Violation, Worlds

_HINT = f"{LOG}/_last_checkpoint"
# How a program ends whose commit exists, or may exist: what it wrote stays.
_KEPT = ("unknown", "damaged")
# A protocol that names this is beyond every writer that is explored.
UNKNOWN_FEATURE = "notYetInvented"


@dataclass(frozen=True)
class Promise:
    """What the retentions of a table promise.

    Versions from ``first_readable`` on can be rebuilt, the files of those from ``first_whole`` on
    are there, and so are those removed after ``removed_after_ms``. ``orphans`` are files that lay
    there from the beginning without a commit, and ``lost`` are files that were lost before: their
    rows do not count.
    """

    first_readable: int
    first_whole: int
    removed_after_ms: int
    orphans: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()


class TableChecks(Checks):
    """All invariants, with a memory of what was checked already."""

    def __init__(
        self,
        worlds: Worlds,
        programs: Sequence[Program],
        promise: Promise,
        recover: Callable[[int], int | None] | None = None,
    ) -> None:
        self._worlds, self._programs, self._promise = worlds, programs, promise
        self._recover = recover
        self._reading = Reading(worlds, promise.removed_after_ms, promise.lost)
        self._steps_checked: set[tuple[int, int, Rows, Rows]] = set()
        self._rows_of: dict[int, Rows] = {}
        self._recovered: set[frozenset[str]] = set()

    # -- in every world -------------------------------------------------------------------------

    def world(self, world: int) -> None:
        stored = self._worlds.files(world)
        self._check_catalog(stored)
        files = self._ratified(stored)
        versions = self._reading.versions(files)
        self._check_readable(versions)
        before: Rows | None = None
        previous: Version | None = None
        for version in versions:
            if version.number >= self._promise.first_whole:
                rows = self._reading.rows(files, version)
                if self._rows_of.setdefault(version.key, rows) != rows:
                    raise Violation("ConsistentRead", f"version {version.number} changed")
                if previous is not None and before is not None:
                    self._check_step(previous, version, before, rows)
                before = rows
            previous = version
        self._check_tombstones(files, versions[-1])
        self._check_hint(files)
        self._check_items(files)
        self._check_clone(files)

    def _check_readable(self, versions: Sequence[Version]) -> None:
        if versions[0].number > self._promise.first_readable:
            raise Violation(
                "nothing reachable is removed",
                f"version {self._promise.first_readable} cannot be rebuilt",
            )

    # -- from one version to the next -----------------------------------------------------------

    def _check_step(self, previous: Version, version: Version, before: Rows, rows: Rows) -> None:
        memo = (previous.key, version.key, before, rows)
        if memo in self._steps_checked:
            return
        self._check_times(previous, version)
        owner = owner_of(commit_info(version).get("txnId", ""))
        if owner is not None:
            self._check_commit(self._programs[owner], previous, version, before, rows)
        self._steps_checked.add(memo)

    def _check_commit(
        self, program: Program, previous: Version, version: Version, before: Rows, rows: Rows
    ) -> None:
        if rows != program.effect(before):
            raise Violation(
                "ConsistentRead",
                f"version {version.number}, by {program.name}, changed the rows wrongly: "
                f"{len(before)} rows before, {len(rows)} after",
            )
        protocol = self._reading.state(previous).protocol or {}
        state = self._reading.state(version)
        has_vectors = any("deletionVector" in add for add in state.files.values())
        is_allowed = "deletionVectors" in (state.protocol or {}).get("readerFeatures", ())
        unknown = UNKNOWN_FEATURE in protocol.get("writerFeatures", ())
        if unknown or (has_vectors and not is_allowed):
            raise Violation(
                "no commit violates the protocol", f"version {version.number}, by {program.name}"
            )
        if program.real and program.rearranges:
            self._check_rearrangement(previous, version)

    def _check_times(self, previous: Version, version: Version) -> None:
        older, newer = (commit_info(v).get("inCommitTimestamp") for v in (previous, version))
        if older is not None and newer is not None and older >= newer:
            raise Violation(
                "in-commit timestamps increase",
                f"version {version.number} is not later than the version before",
            )

    def _check_rearrangement(self, previous: Version, version: Version) -> None:
        before = self._reading.state(previous)
        for action in version.actions:
            for kind in action.keys() & {"add", "remove"}:
                body = action[kind]
                if body.get("dataChange", True):
                    raise Violation(
                        "a commit that only moves rows has dataChange false",
                        f"{body['path']}: dataChange",
                    )
            if "add" in action and "baseRowId" in action["add"]:
                domain = before.domains.get("delta.rowTracking")
                mark = json.loads(domain["configuration"])["rowIdHighWaterMark"] if domain else -1
                if action["add"]["baseRowId"] <= mark:
                    raise Violation("row ids are new", f"version {version.number}")

    # -- retention and hint ---------------------------------------------------------------------

    def _check_tombstones(self, files: Mapping[str, Entry], last: Version) -> None:
        """What was removed a short while ago stays for readers of older versions."""
        for remove in self._reading.state(last).tombstones.values():
            for name in naive.file_names(remove):
                young = remove.get("deletionTimestamp", 0) > self._promise.removed_after_ms
                if young and name not in files and name not in self._promise.lost:
                    raise Violation(
                        "nothing reachable is removed",
                        f"{name} does not exist, but its tombstone has not expired",
                    )

    def _check_hint(self, files: Mapping[str, Entry]) -> None:
        entry = files.get(_HINT)
        if entry is None:
            return
        version = int(json.loads(self._worlds.data(entry.data))["version"])
        newest = max(naive.checkpoint_names(files), default=-1)
        if version > newest:
            raise Violation(
                "_last_checkpoint is not ahead",
                f"it refers to {version}, the latest checkpoint is {newest}",
            )

    def _check_items(self, files: Mapping[str, Entry]) -> None:
        """A commit has the content of its item, and is there once the item says so."""
        for item in naive.items(files, self._worlds.data):
            stored = files.get(item.commit)
            if stored is None:
                if item.complete and item.version not in _cleaned_up(files):
                    raise Violation("items agree with the files", f"{item.commit} does not exist")
            elif item.temporary in files and files[item.temporary].data != stored.data:
                raise Violation(
                    "one winner per version", f"{item.commit} does not have the content in its item"
                )

    def _check_catalog(self, files: Mapping[str, Entry]) -> None:
        """Commits are published after they are ratified, in order, and then reported."""
        ratified = {it.version: it for it in naive.ratified(files, self._worlds.data)}
        if not ratified:
            return
        published = naive.commit_names(files)
        self._check_published(files, published, ratified)
        newest, cleaned_up = max(published), _cleaned_up(files)
        for it in ratified.values():
            if not it.reported and it.staged not in files:
                raise Violation("a listed commit has its staged file", it.staged)
            if it.version in published or it.version in cleaned_up:
                continue
            if it.reported:
                raise Violation("a reported commit is published", it.commit)
            if it.version < newest:
                raise Violation("commits are published in order", it.commit)
        last = max(naive.checkpoint_names(files), default=-1)
        if last > newest:
            raise Violation("a checkpoint is of a published version", f"version {last}")

    @staticmethod
    def _check_published(
        files: Mapping[str, Entry],
        published: Mapping[int, str],
        ratified: Mapping[int, naive.Ratified],
    ) -> None:
        for version, commit in published.items():
            if version > max(ratified):
                raise Violation("only ratified commits are published", commit)
            staged = files.get(ratified[version].staged) if version in ratified else None
            if staged is not None and staged.data != files[commit].data:
                raise Violation("one winner per version", f"{commit} is not the ratified commit")

    def _ratified(self, files: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """The files with ratified commits as if they were published: readers ask the catalog."""
        ratified = naive.ratified(files, self._worlds.data)
        staged = {it.commit: files[it.staged] for it in ratified if not it.reported}
        return {**files, **staged}

    def _check_clone(self, files: Mapping[str, Entry]) -> None:
        """What the first commit of a shallow clone names is there."""
        commit = files.get(f"{CLONE}/{LOG}/{0:020d}.json")
        if commit is None:
            return
        uri = self._worlds.rules.uri
        roots = (f"{uri}/", f"{uri.replace('file:///', 'file:/')}/")
        for action in naive.parse_lines(self._worlds.data(commit.data)):
            for name in naive.file_names(action["add"]) if "add" in action else ():
                root = next(root for root in roots if name.startswith(root))
                if name.removeprefix(root) not in files:
                    raise Violation("a shallow clone keeps its files", f"{name} does not exist")

    def _decided(self, files: Mapping[str, Entry]) -> Mapping[str, Entry]:
        """With the commits that are won, and that the next one who lists the log will finish."""
        found = dict(self._ratified(files))
        for item in naive.items(files, self._worlds.data):
            if item.commit not in files and item.version not in _cleaned_up(files):
                if item.temporary not in files:
                    raise Violation(
                        "items agree with the files", f"{item.temporary} does not exist"
                    )
                found[item.commit] = files[item.temporary]
        return found

    # -- where somebody, or everybody, has ended ------------------------------------------------

    def finished(self, world: int, program: int, outcome: Outcome) -> None:
        who = self._programs[program].name
        if outcome.kind == "broken":
            raise Violation("no unexpected error", f"{who}: {outcome.value}")
        files = self._ratified(self._worlds.files(world))
        mine = self._reading.commits_of(files, program)
        lost = set(outcome.versions) - mine - _cleaned_up(files)
        if lost and outcome.kind == "done":
            raise Violation("an acknowledged commit stays", f"{who}: {sorted(lost)}")
        if outcome.kind == "read":
            self._check_read(files, outcome)

    def _check_read(self, files: Mapping[str, Entry], outcome: Outcome) -> None:
        (number,) = outcome.versions
        for version in self._reading.versions(files):
            if version.number == number and self._reading.rows(files, version) != outcome.value:
                raise Violation("ConsistentRead", f"a reader saw other rows in version {number}")

    def end(self, state: State) -> None:
        files = self._decided(self._worlds.files(state.world))
        for number, program in enumerate(self._programs):
            outcome = state.nodes[number].outcome
            mine = self._reading.commits_of(files, number)
            if len(mine) > program.max_commits:
                raise Violation("a commit appears at most once", f"{program.name}: {sorted(mine)}")
            if outcome is None:
                continue
            self._check_refusal(state, program, outcome)
            if outcome.kind in _KEPT or not program.counted:
                continue
            if mine - set(outcome.versions):
                raise Violation(
                    "an unreported commit does not exist",
                    f"{program.name} ended with {outcome.kind}, but committed {sorted(mine)}",
                )
        self._check_orphans(state, files)

    @staticmethod
    def _check_refusal(state: State, program: Program, outcome: Outcome) -> None:
        """Only the protocol is a reason to give up, unless something went wrong but a crash."""
        if state.faults > state.dead.bit_count() or outcome.kind not in ("refused", *_KEPT):
            return
        reason = str(outcome.value)
        if reason.startswith("SAFETY: the vacuum that began in "):
            return  # a clone cannot know whether a vacuum without a lease still runs
        if not reason.startswith("UNSUPPORTED_FEATURE") or UNKNOWN_FEATURE not in reason:
            rule = "a crashed program does not block others" if state.dead else "no false alarm"
            raise Violation(rule, f"{program.name} ended with {outcome.kind}: {reason}")

    def _check_orphans(self, state: State, files: Mapping[str, Entry]) -> None:
        orphans = self._orphans(files)
        self._check_sidecars(state, files)
        for name in orphans:
            owner = owner_of(name)
            outcome = None if owner is None else state.nodes[owner].outcome
            if owner is None or not (
                state.faulty >> owner & 1 or (outcome is not None and outcome.kind in _KEPT)
            ):
                raise Violation("no program leaves files behind", name)
        if orphans and self._recover is not None and orphans not in self._recovered:
            recovered = self._recover(state.world)
            if recovered is not None:
                self._check_recovery(recovered, files)
            self._recovered.add(orphans)

    def _check_sidecars(self, state: State, files: Mapping[str, Entry]) -> None:
        """After an error they stay for the next log cleanup: what named them may still arrive."""
        for name in self._reading.unnamed_sidecars(files):
            if not state.faults and owner_of(name) is not None:
                raise Violation("no program leaves files behind", name)

    def _check_recovery(self, world: int, before: Mapping[str, Entry]) -> None:
        after = self._ratified(self._worlds.files(world))
        left = self._orphans(after)
        if left:
            raise Violation("the next vacuum removes files left behind", ", ".join(sorted(left)))
        old, new = self._reading.versions(before)[-1], self._reading.versions(after)[-1]
        if self._reading.rows(before, old) != self._reading.rows(after, new):
            raise Violation("the next vacuum removes files left behind", "and it changed rows")

    def _orphans(self, files: Mapping[str, Entry]) -> frozenset[str]:
        named = set(self._promise.orphans)
        for version in self._reading.versions(files):
            for action in version.actions:
                for body in (action.get("add"), action.get("remove")):
                    named.update([] if body is None else naive.file_names(body))
            for state in (self._reading.state(version),):
                for body in (*state.files.values(), *state.tombstones.values()):
                    named.update(naive.file_names(body))
        others = ("_", ".", *DECISIONS, CLONE)
        return frozenset(n for n in files if not n.startswith(others)) - named


def _cleaned_up(files: Mapping[str, Entry]) -> set[int]:
    return set(range(min(naive.commit_names(files), default=0)))
