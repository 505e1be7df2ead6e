"""The sections of the reports of ``check --fix``."""

from __future__ import annotations

from collections.abc import Iterator

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.log.commits.file_actions import sum_sizes
from deltactl.operations.check.fixes.log_files import LogFileReport
from deltactl.operations.check.fixes.missing import MissingReport
from deltactl.operations.check.fixes.options import Fix
from deltactl.operations.check.fixes.path_encoding import PathRepairReport
from deltactl.operations.check.fixes.report import FixReport
from deltactl.operations.check.fixes.stats import StatsReport
from deltactl.operations.check.path_encoding.pairs import PathPair
from deltactl.units import format_count, format_size


def describe_fix(report: FixReport) -> Iterator[Section]:
    """Return what is or was changed, and what is left."""
    if isinstance(report, PathRepairReport):
        yield from _describe_paths(report)
    elif isinstance(report, MissingReport):
        yield from _describe_missing(report)
    elif isinstance(report, StatsReport):
        yield from _describe_stats(report)
    elif isinstance(report, LogFileReport):
        yield _describe_log_file(report)


def question_of(report: FixReport) -> str:
    """Return the question to ask before a fix."""
    if isinstance(report, LogFileReport):
        if report.files_ahead:
            return (
                f"Are the commits after version {report.version} lost for good? Then delete "
                f"{format_count(len(report.files_ahead), 'file')} that they left, and go on from "
                "this version?"
            )
        return f"Repair {report.name}?"
    if isinstance(report, StatsReport):
        return f"Write new statistics of {format_count(report.num_files, 'file')} to the log?"
    if isinstance(report, PathRepairReport):
        files, rows = len(report.chosen), report.num_rows
    else:
        assert isinstance(report, MissingReport)
        files, rows = report.chosen.num_rows, report.num_rows
        if report.keeps_deleted_rows:
            return (
                f"Keep {format_count(files, 'file')} without deletion vectors? Readers will return "
                f"{format_count(rows or 0, 'deleted row')} again."
            )
    shown = "their rows" if rows is None else format_count(rows, "row")
    return (
        f"Remove {format_count(files, 'file')} from the table? Readers will no longer return "
        f"{shown}."
    )


def _headline(report: FixReport, what: str) -> str:
    if report.version_after is not None:
        return f"Removed {what} in version {report.version_after}"
    return (
        f"{'Would remove' if report.dry_run else 'To remove:'} {what} from version {report.version}"
    )


def _describe_missing(report: MissingReport) -> Iterator[Section]:
    chosen, is_vectors = report.chosen, report.kind is Fix.MISSING_VECTORS
    if report.is_empty:
        said = "Nothing was chosen to be removed" if report.num_left else "Nothing to fix"
        tone = Tone.CAUTION if report.num_left else Tone.GOOD
        yield Section((tone(said), f" in version {report.version}"))
    else:
        rows = "unknown" if report.num_rows is None else f"{report.num_rows:,}"
        what = format_count(chosen.num_rows, "file" if is_vectors else "missing file")
        facts = [("files", f"{chosen.num_rows:,} ({format_size(sum_sizes(chosen))})")]
        if report.keeps_deleted_rows:
            facts.append(("deleted rows", f"{rows}: readers return them again"))
            what = format_count(chosen.num_rows, "deletion vector")
        else:
            facts.append(("live rows", f"{rows}: readers will no longer return them"))
        yield Section(
            Tone.STRONG(_headline(report, what)), facts=facts, table=_list_lost(report, True)
        )
    if report.num_left:
        notes = ["To remove one of them, give its path with --path"]
        text = "Not removed: --path does not select them, or they may still exist elsewhere"
        if is_vectors and report.is_empty and not report.lost.places:
            text = "Only their deletion vectors are missing"
            notes = [
                "To remove the files with their live rows, add --drop-files",
                "To keep the files, so that their deleted rows return, add --keep-deleted-rows",
            ]
        yield Section(text, table=_list_lost(report, False), notes=notes)
    if report.num_others:
        other = Fix.MISSING_FILES if is_vectors else Fix.MISSING_VECTORS
        one, more = "file is missing", "files are missing"
        if not is_vectors:
            one, more = "file lacks only its deletion vector", "files lack only deletion vectors"
        count = format_count(report.num_others, f"other {one}", f"other {more}")
        yield Section(facts=[("note", f"{count}: see --fix {other}")])


def _describe_stats(report: StatsReport) -> Iterator[Section]:
    if report.num_files == report.num_dropped:
        said = "Nothing was written" if report.num_left else "Nothing to fix"
        tone = Tone.CAUTION if report.num_left else Tone.GOOD
        yield Section((tone(said), f" in version {report.version}"))
    else:
        files = format_count(report.num_files - report.num_dropped, "file")
        verb = "Would write" if report.dry_run else "To write:"
        said = f"{verb} statistics of {files} of version {report.version}"
        if report.version_after is not None:
            said = f"Wrote statistics of {files} in version {report.version_after}"
        readable = report.rows.filter(report.rows["changed"])
        yield Section(
            Tone.STRONG(said),
            facts=[(reason, f"{n:,}" if n else None) for reason, n in report.counts.items()],
            table=Table([Column("path", Kind.PATH, tone=Tone.STRONG), Column("reason")], readable),
        )
    facts = []
    if report.num_dropped:
        files = format_count(report.num_dropped, "file")
        cause = "other writers: run the fix again" if report.error is None else "the error"
        facts.append(("left", f"{files}, because of {cause}"))
    if report.num_unread:
        files = format_count(report.num_unread, "file")
        facts.append(("left", f"{files} that cannot be used: see `deltactl check --files footers`"))
    if facts:
        yield Section(facts=facts)


def _describe_log_file(report: LogFileReport) -> Section:
    if not report.rows:
        return Section((Tone.GOOD("Nothing to fix"), f" in version {report.version}"))
    verb = "Would repair" if report.dry_run else "To repair:"
    verb = "Repaired" if report.is_repaired else "Not repaired:" if report.obstacle else verb
    return Section(
        Tone.STRONG(
            f"{verb} the log after version {report.version}"
            if report.files_ahead
            else f"{verb} {report.name}"
        ),
        facts=[
            *(("delete", name) for name in report.files_ahead),
            ("problem", report.problem),
            ("reason", report.obstacle),
        ],
    )


def _list_lost(report: MissingReport, is_chosen: bool) -> Table:
    rows = [row for row in report.rows.to_pylist() if row["changed"] is is_chosen]
    return Table(
        [Column("file", Kind.WORD, tone=Tone.STRONG), Column("problem", Kind.DETAIL)],
        [(row["text"], _say_lost(row)) for row in rows],
    )


def _say_lost(row: dict[str, object]) -> str:
    rows, live = row["rows"], row["live_rows"]
    problem = "it does not exist"
    if row["missing"] != row["path"]:
        problem = f"its deletion vector {row['missing']} does not exist"
    if isinstance(rows, int) and isinstance(live, int):
        problem += f"; {format_count(live, 'live row')}"
        problem += f" of {rows:,}" if rows != live else ""
    return f"{problem}; {row['place']}" if row["place"] else problem


def _describe_paths(report: PathRepairReport) -> Iterator[Section]:
    if report.is_empty:
        said = "No path can be removed safely" if report.left else "Nothing to fix"
        tone = Tone.CAUTION if report.left else Tone.GOOD
        yield Section((tone(said), f" in version {report.version}"))
    else:
        count = format_count(len(report.chosen), "file")
        rows = "unknown" if report.num_rows is None else f"{report.num_rows:,}"
        yield Section(
            Tone.STRONG(_headline(report, count)),
            facts=[
                ("files", f"{len(report.chosen):,} ({format_size(report.size_bytes)})"),
                ("live rows", f"{rows}: readers will no longer return them"),
            ],
            table=_list_pairs(report.chosen),
        )
    if report.left:
        yield Section(
            "Not removed: --path does not select them, or the table may need their rows",
            table=_list_pairs(report.left),
            notes=["To remove one of them, give the quoted text after 'live as' with --path"],
        )


def _list_pairs(pairs: tuple[PathPair, ...]) -> Table:
    gone = "; the file does not exist"
    rows = [(it.path, it.problem + (gone if it.exists is False else "")) for it in pairs]
    columns = [Column("file", Kind.WORD, tone=Tone.STRONG), Column("problem", Kind.DETAIL)]
    return Table(columns, rows)
