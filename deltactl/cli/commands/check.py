"""``deltactl check``: parse options, call the operation, print its report."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltactl.cli.commands.check_fix import fix_paths
from deltactl.cli.options.common import DryRunOption, TableArgument, YesOption
from deltactl.cli.options.params import ensure_alone
from deltactl.cli.session import Session
from deltactl.errors import DeltactlError, InterruptedRunError, UnsupportedFeatureError, UsageError
from deltactl.operations.check.options import CheckOptions, Depth

if TYPE_CHECKING:
    from deltactl.operations.check.report import CheckReport

_DEFAULTS: Final = CheckOptions()


class Fix(StrEnum):
    """What ``--fix`` can repair."""

    PATH_ENCODING = "path-encoding"


class Files(StrEnum):
    """How thoroughly data files are checked."""

    EXISTS = "exists"
    SIZES = "sizes"
    FOOTERS = "footers"
    DATA = "data"


def command(
    ctx: typer.Context,
    table: TableArgument,
    version: Annotated[
        int | None,
        typer.Option(min=0, help="Check the files of this version  [default: the latest]"),
    ] = None,
    all_versions: Annotated[
        bool,
        typer.Option("--all-versions", help="Check the files of every version in the log"),
    ] = False,
    files: Annotated[
        Files,
        typer.Option(
            help="How to check data files. exists: check that each file exists. sizes: also "
            "compare its size with the log. footers: also compare its footer with the "
            "statistics in the log. data: also decode all rows"
        ),
    ] = Files[_DEFAULTS.depth.name],
    sample: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Check only this share of the files, e.g. 5%"),
    ] = None,
    checkpoints: Annotated[
        bool,
        typer.Option(
            "--checkpoints",
            help="Compare every checkpoint with the commits. Also report errors in "
            "_last_checkpoint and in checksum files as findings. Without this option, "
            "deltactl reports these errors as notes",
        ),
    ] = False,
    dvs: Annotated[
        bool,
        typer.Option(
            "--dvs",
            help="Decode all deletion vectors. With --files data, deltactl always decodes them",
        ),
    ] = False,
    proofs: Annotated[
        bool,
        typer.Option(
            "--proofs",
            help="Compute row digests again for files that were written by optimize with "
            "--cluster-by or --zorder-by. Compare the results with the digests in the log",
        ),
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Record the progress of the check in this local file. If the file exists, "
            "continue the check that is recorded in it",
        ),
    ] = None,
    fix: Annotated[
        Fix | None,
        typer.Option(
            help="Repair findings of one kind. path-encoding: a remove action encodes the path "
            "differently than its add action does, so readers still use the file. If you "
            "confirm, deltactl removes the file from the table"
        ),
    ] = None,
    path: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="With --fix: repair only this path. Write the path exactly as in the log. May "
            "be repeated",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
) -> None:
    """Check that the log, files and statistics of a table agree.

    The command always checks the whole log. If it finds a problem, the exit status is 3. Only with
    --fix does the command write to the table.

    \b
    Examples:
      deltactl check /data/events
      deltactl check /data/events --files footers --checkpoints --dvs
      deltactl check /data/events --files data --sample 5%
      deltactl check /data/events --files data --resume /tmp/events.check
      deltactl check /data/events --fix path-encoding --dry-run
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    if fix is not None:
        ensure_alone(ctx, command, "fix", "path", "yes", "dry_run")
        fix_paths(session, table, path or (), yes=yes, dry_run=dry_run)
        return
    if path or yes or dry_run:
        raise UsageError(
            "--path, --yes and --dry-run can only be used with --fix: without --fix, check "
            "writes nothing",
            hint="Add --fix path-encoding, or remove these options.",
        )
    options = CheckOptions(
        version=version,
        all_versions=all_versions,
        depth=Depth[files.name],
        sample=_DEFAULTS.sample if sample is None else _parse_percent(sample),
        checkpoints=checkpoints,
        vectors=dvs,
        proofs=proofs,
        resume=resume,
    )
    report = _run(session, table, options)
    error = None
    if report.unsupported is not None:
        error = UnsupportedFeatureError(
            report.unsupported,
            hint="Use a newer deltactl if there is one. This result covers only the parts that do "
            "not depend on the feature.",
        )
    _present(session, report, error)


def _run(session: Session, table: str, options: CheckOptions) -> CheckReport:
    from deltactl.operations.check.run import check_table

    log = session.open_log(table)
    with session.run_context("check", session.engine()) as context:
        try:
            return check_table(log, options, context)
        except InterruptedRunError as error:
            session.raise_if_cancelled(error.message, hint=error.hint)
            raise


def _present(session: Session, report: CheckReport, error: DeltactlError | None) -> None:
    from deltactl.cli.pages.check import render_check, summarise

    session.present(
        lambda page: render_check(page, report),
        rows=report.findings,
        headline=None if report.is_sound else summarise(report),
        error=error,
        is_work_needed=not report.is_sound,
        version_before=report.version,
        version_after=report.version,
        engine=report.engine,
        engine_reason=report.engine_reason,
        result=report.to_dict(),
    )


def _parse_percent(text: str) -> float:
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not percent or rest or not value > 0:
        raise UsageError(f"--sample {text!r} is not a percentage of the files", hint='Write "5%".')
    return value / 100
