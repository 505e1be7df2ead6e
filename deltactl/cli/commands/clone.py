"""``deltactl clone``: parse options, call the operation, print its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from deltactl.cli.options.common import argument, dry_run_field
from deltactl.cli.session import Session
from deltactl.errors import UsageError
from deltactl.operations.clone.options import CloneOptions
from deltactl.option_fields import Pairs, execution_option, selection_option

if TYPE_CHECKING:
    from deltactl.operations.clone.report import CloneReport


@dataclass(frozen=True, slots=True)
class CloneFlags:
    """Options that only the command line has."""

    shallow: bool = selection_option(
        False,
        "Copy no data files. The log of the clone refers to the files of the source",
        is_basic=True,
    )
    source_storage_option: Pairs = execution_option(
        {},
        "Storage option for SOURCE; may be repeated. If you give it, --storage-option applies only "
        "to TARGET",
        metavar="KEY=VALUE",
        is_repeated=True,
    )
    dry_run: bool = dry_run_field()


def command(
    session: Session,
    table: Annotated[str, argument("SOURCE", "Path or URI of the table to clone")],
    target: Annotated[str, argument("TARGET", "Path or URI of the new table")],
    options: CloneOptions,
    flags: CloneFlags,
) -> None:
    """Clone a table: copy its files (--deep) or refer to them (--shallow).

    The clone has the rows, schema and properties of one version, but no history.

    TARGET becomes a table only after deltactl has copied all files. If a run is interrupted, rerun
    the same command: the new run copies only the missing files.

    \b
    Examples:
      deltactl clone /data/events s3://backup/events --deep
      deltactl clone /data/events s3://backup/events --deep --sync
      deltactl clone /data/events /tmp/test --shallow --version 12
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    if options.deep == flags.shallow:
        raise UsageError(
            "--deep and --shallow cannot be combined"
            if flags.shallow
            else "clone needs --deep or --shallow",
            hint="Give one of them: --deep copies the files, --shallow does not.",
        )
    from deltactl.operations.clone.run import clone_table

    source_options = session.resolve_options(flags.source_storage_option)
    writes_note = not (flags.dry_run or options.deep) and options.note
    source = session.open_log(
        table,
        options=source_options,
        read_only=not writes_note,
        published_only=options.published_only,
    )
    log = session.open_table(target, read_only=flags.dry_run)
    with session.run_context("files", session.engine()) as context:
        report = clone_table(source, log, options, context, dry_run=flags.dry_run)
    _present(session, report, target)


def _present(session: Session, report: CloneReport, target: str) -> None:
    from deltactl.cli.pages.creation import describe_clone

    result = report.to_dict()
    session.chosen_version = report.plan.version
    session.present(
        lambda: describe_clone(report, target),
        rows=[result],
        error=report.find_error(),
        version_before=report.version_before,
        version_after=report.version_after,
        is_idle=report.is_done and not report.files_copied,
        engine=report.engine,
        engine_reason=report.engine_reason,
        result=result,
    )
