"""The sections about changes: between versions, of a partition, and by ``restore``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from deltactl.cli.output.sections import Fact, Line, Section, Styled, Tone, list_single_versions
from deltactl.cli.pages.history import (
    describe_commits,
    describe_partitions,
    describe_unread,
    format_partition,
)
from deltactl.cli.pages.vacuum import list_files
from deltactl.cli.parsing.argv import typed_command
from deltactl.operations.history.changes import change_from_counts
from deltactl.units import format_count, format_size, format_timestamp

if TYPE_CHECKING:
    from deltactl.log.commits.changes import FileCounts
    from deltactl.operations.alter.report import AlterReport
    from deltactl.operations.alter.steps import AlterPlan, Step
    from deltactl.operations.history.blame import BlameReport
    from deltactl.operations.history.diff import VersionDiff
    from deltactl.operations.restore.run import RestorePlan, RestoreReport


def describe_diff(
    diff: VersionDiff, title: Line = (), facts: Sequence[Fact] = ()
) -> Iterator[Section]:
    """Return the differences between two versions, in the first section also other facts."""
    files = format_count(diff.num_remarked, "file is", "files are")
    remarked = f"{files} in both versions; only the deletion vector changed"
    yield Section(
        title,
        facts=[
            ("from", _version(diff.first, diff.timestamps_ms[0])),
            ("to", _version(diff.last, diff.timestamps_ms[1])),
            ("added", Tone.GOOD(_describe(diff.added))),
            ("removed", Tone.CAUTION(_describe(diff.removed))),
            *facts,
        ],
        notes=[remarked] if diff.num_remarked else (),
    )
    if any(part.partition_values for part in diff.partitions):
        yield describe_partitions(diff.partitions, most=20)
    # A column that was dropped and added again is listed twice, under the same name.
    yield from _list_changes("columns", [(c.column, (c.before, c.after)) for c in diff.columns])
    yield from _list_changes("properties", diff.properties.items())
    yield from _list_changes("table", diff.facts.items())


def _version(version: int, timestamp_ms: int | None) -> str:
    when = "" if timestamp_ms is None else f", {format_timestamp(timestamp_ms)}"
    return f"version {version}{when}"


def _describe(counts: FileCounts) -> str:
    size = "? bytes" if counts.size_bytes is None else format_size(counts.size_bytes)
    rows = "? rows" if counts.num_rows is None else format_count(counts.num_rows, "row")
    return f"{format_count(counts.num_files, 'file')}, {size}, {rows}"


def _list_changes(
    heading: str, changes: Collection[tuple[str, tuple[str | None, str | None]]]
) -> Iterator[Section]:
    if changes:
        lines = [_describe_change(name, *sides) for name, sides in changes]
        yield Section(Tone.STRONG(heading), notes=lines)


def _describe_change(name: str, before: str | None, after: str | None) -> Line:
    if before is None:
        return Tone.GOOD("+ "), name, Tone.FAINT(" = "), after or ""
    if after is None:
        return Tone.BAD("- "), name, Tone.FAINT(" = "), before
    return Tone.CAUTION("~ "), name, f": {before} -> {after}"


def describe_blame(report: BlameReport, now_ms: int) -> Iterator[Section]:
    """Return the commits that changed a partition, and what each of them changed."""
    asked = report.asked
    title = asked.sql or "" if asked.partition is None else format_partition(asked.partition)
    nothing = "no commit in the log added or removed files in this partition"
    yield Section(Tone.STRONG(title), notes=() if report.rows else [nothing])
    changes = {version: change_from_counts(change) for version, change in report.changes.items()}
    if report.rows:
        yield from describe_commits(report.rows, changes, now_ms)
        yield describe_unread(report.num_unread, "use --all")


def describe_restore(report: RestoreReport, table: str) -> Iterator[Section]:
    """Return what would be done or what was done."""
    plan = report.plan
    if plan.is_empty:
        what = "" if plan.predicate is None else f" where {plan.predicate}"
        said = f": version {plan.version} is the same as version {plan.target_version}{what}"
        if lost := plan.lost.num_rows:
            said += (
                f", but without {format_count(lost, 'file')} of that version that cannot be read"
            )
        yield Section(((Tone.CAUTION if lost else Tone.GOOD)("Nothing to restore"), said))
        yield from _list_unreadable(plan)
        return
    if report.version_after is None:
        yield from _describe_changes(_title("Would restore", plan), plan)
        return
    tone = Tone.CAUTION if report.gone else Tone.GOOD
    title = (*_title("Restored", plan, tone), f" in version {report.version_after}")
    yield from _describe_changes(title, plan)
    gone = [(file.path, file.problem) for file in report.gone]
    yield from list_files("Gone", gone, Tone.BAD)
    where = [] if plan.predicate is None else ["--where", plan.predicate]
    import pyarrow.compute as pc

    from deltactl.operations.missing_files import needs_missing

    # They were not looked for: the restored version does not need them.
    way = (
        "To undo it, if the removed files still exist:" if plan.removed.num_rows else "To undo it:"
    )
    if missing := pc.sum(needs_missing(plan.removed, plan.missing)).as_py():
        if _only_removes(plan, missing):
            return
        where += ["--ignore-missing", "--expect-files", str(missing)]
        way = "To undo it without the missing files, if the other removed files still exist:"
    undo = typed_command(["restore", table, "--to-version", str(plan.version), *where])
    yield Section(way, code=undo)


def _only_removes(plan: RestorePlan, num_files: int) -> bool:
    """Return whether a restore removes so many files, and changes nothing else."""
    diff = plan.diff
    changes = plan.added.num_rows, plan.renumbered.num_rows, diff.columns, diff.properties
    return plan.removed.num_rows == num_files and not (any(changes) or diff.facts)


def _list_unreadable(plan: RestorePlan) -> Iterator[Section]:
    files = [(it.path, it.problem) for it in plan.unreadable]
    return list_files("Cannot be read", files, Tone.BAD)


def describe_plan(plan: RestorePlan) -> Iterator[Section]:
    """Return the plan, before the user confirms it."""
    return _describe_changes(_title("Restore", plan), plan)


def _title(verb: str, plan: RestorePlan, tone: Tone = Tone.STRONG) -> tuple[Styled, str]:
    where = "" if plan.predicate is None else f" where {plan.predicate}"
    return tone(f"{verb} version {plan.target_version}"), where


def _describe_changes(title: Line, plan: RestorePlan) -> Iterator[Section]:
    from deltactl.log.commits.changes import FileCounts

    after = f"{format_count(plan.files_after, 'file')}, {format_size(plan.bytes_after)}"
    undone = list_single_versions(plan.undone) if plan.undone else None
    lost = FileCounts(plan.lost.num_rows, plan.lost_bytes, plan.lost_rows)
    facts = [
        ("unreadable", Tone.BAD(_describe(lost)) if lost.num_files else None),
        ("undoes", undone),
        ("table after", after),
    ]
    yield from describe_diff(plan.diff, title, facts)
    yield from _list_unreadable(plan)


def describe_alter(report: AlterReport) -> Iterator[Section]:
    """Return what would be done or what was done."""
    if report.plan.is_empty:
        yield Section(
            (Tone.GOOD("Nothing to alter"), ": the table already has the requested state")
        )
        return
    if report.dry_run:
        yield from describe_alter_plan(report.plan)
        return
    if report.error is not None:
        planned = [("planned", ", ".join(_describe_steps(report.plan.steps)))]
        done = f" in version {', '.join(map(str, report.versions))}"
        yield Section((Tone.BAD("Not completely altered"), done), facts=planned)
        return
    title = Tone.GOOD("Altered the table"), f" in version {report.version_after}"
    yield from _describe_alter(title, report.plan)


def describe_alter_plan(plan: AlterPlan) -> Iterator[Section]:
    """Return the plan, before the user confirms it."""
    return _describe_alter(
        (Tone.STRONG("Would alter the table"), f", version {plan.version}"), plan
    )


def _describe_alter(title: Line, plan: AlterPlan) -> Iterator[Section]:
    until = plan.protected_until_ms
    yield Section(
        title,
        facts=[
            ("commits", ", ".join(_describe_steps(plan.steps))),
            ("features added", ", ".join(plan.added) or None),
            ("features dropped", ", ".join(plan.dropped) or None),
            ("history protected", None if until is None else f"until {format_timestamp(until)}"),
        ],
        notes=[Tone.CAUTION(risk) for risk in plan.risks],
    )
    yield from _list_changes("properties", plan.properties.items())


def _describe_steps(steps: Sequence[Step]) -> Iterator[str]:
    for step, equal in groupby(steps):
        counts = [format_count(step.num_files, "file")] if step.num_files else []
        counts += [format_size(step.num_bytes)] if step.num_bytes else []
        files = f" ({', '.join(counts)})" if counts else ""
        checkpoint = " with checkpoint" if step.writes_checkpoint else ""
        number = len(list(equal))
        times = f", {number} times" if number > 1 else ""
        yield f"{step.operation}{files}{checkpoint}{times}"
