"""``deltactl generate-manifest``: parse options, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltactl.cli.options.common import DryRunOption, TableArgument
from deltactl.cli.session import Session
from deltactl.errors import UsageError
from deltactl.operations.manifest.options import Engine, ManifestOptions

if TYPE_CHECKING:
    from deltactl.operations.manifest.run import ManifestReport

_DEFAULTS: Final = ManifestOptions()


def command(  # noqa: PLR0913 - one parameter an option
    ctx: typer.Context,
    table: TableArgument,
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE", help="Kind of manifests; symlink_format_manifest is the only kind"
        ),
    ] = _DEFAULTS.mode,
    version: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Write the manifests of this version  [default: the latest]"
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Write only the manifests of partitions that match this SQL condition, e.g. "
            "\"date >= '2024-01-01'\"",
        ),
    ] = None,
    since: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Write only the manifests of partitions that changed after version N",
        ),
    ] = None,
    scheme_map: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FROM=TO",
            help="Replace the scheme of the file addresses in the manifests: s3a=s3 writes "
            "s3:// instead of s3a://. May be repeated",
        ),
    ] = None,
    output_root: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Create _symlink_format_manifest in this directory  [default: the directory of "
            "the table]",
        ),
    ] = None,
    purge_first: Annotated[
        bool,
        typer.Option(
            "--purge-first",
            help="First rewrite the files that have deletion vectors, in a separate commit. Then "
            "write the manifests",
        ),
    ] = False,
    ddl: Annotated[
        Engine | None,
        typer.Option(
            help="Print the SQL statements that define the table in the catalog of this engine"
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Change nothing, and exit with status 3 if the manifests do not match the table",
        ),
    ] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Write manifests for Athena, Trino, Hive and Redshift.

    A manifest is a list of the live files of a partition. The command first writes new and changed
    manifests, each in one atomic write. Then it deletes the manifests of partitions without files.

    \b
    Examples:
      deltactl generate-manifest s3://lake/events
      deltactl generate-manifest /data/events --check
      deltactl generate-manifest s3a://lake/events --scheme-map s3a=s3 --ddl athena
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    options = ManifestOptions(
        mode=mode,
        version=version,
        where=where,
        since=since,
        schemes=_parse_schemes(scheme_map or []),
        check=check,
        purge_first=purge_first,
        ddl=ddl,
    )
    report = _run(session, table, options, output_root, dry_run)
    _present(session, report, options)


def _run(
    session: Session, table: str, options: ManifestOptions, output_root: str | None, dry_run: bool
) -> ManifestReport:
    from deltactl.operations.purge_first import generate_after_purge
    from deltactl.operations.run_context import RunContext

    looks = dry_run or options.check
    log = session.open_table(table, read_only=looks)
    output = log.store if output_root is None else session.open_store(output_root, read_only=looks)
    label = "purge" if options.purge_first else "generate-manifest"
    with session.cancellation() as cancellation, session.progress(label) as on_progress:
        return generate_after_purge(
            log,
            options,
            RunContext(  # without a run_id: the commits of a purge have none
                warn=session.output.warn,
                storage_options=session.storage_options,
                cancel=cancellation.token,
                on_progress=on_progress,
            ),
            output=output,
            dry_run=dry_run,
        )


def _present(session: Session, report: ManifestReport, options: ManifestOptions) -> None:
    from deltactl.cli.pages.manifest import render_report, summarise

    session.table_id = report.plan.table_id
    headline = summarise(report) if report.ddl else None
    if headline is not None:
        session.output.note(headline)
    session.present(
        lambda page: render_report(page, report, options.check, session.argv),
        rows=report.partitions(),
        headline=headline,
        is_work_needed=options.check and not report.is_up_to_date,
        is_idle=report.is_up_to_date,
        version_before=report.version_before,
        version_after=report.plan.version,
        dry_run=report.dry_run,
        result=report.to_dict(),
    )


def _parse_schemes(pairs: list[str]) -> dict[str, str]:
    schemes: dict[str, str] = {}
    for pair in pairs:
        before, equals, after = pair.partition("=")
        if not equals:
            raise UsageError(f"--scheme-map {pair!r} is not FROM=TO", hint="Write s3a=s3.")
        schemes[before] = after
    return schemes
