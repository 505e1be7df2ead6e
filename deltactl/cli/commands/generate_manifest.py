"""``deltactl generate-manifest``: parse options, call the operation, print its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltactl.cli.options.common import TableArgument, dry_run_field
from deltactl.cli.session import Session
from deltactl.errors import DeltactlError, UsageError
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.option_fields import execution_option

if TYPE_CHECKING:
    from deltactl.operations.manifest.run import ManifestReport


@dataclass(frozen=True, slots=True)
class ManifestFlags:
    """Options that only the command line has."""

    output_root: str | None = execution_option(
        None,
        "Create _symlink_format_manifest in this directory",
        metavar="URI",
        default="the directory of the table",
        is_for_one_table=True,
    )
    dry_run: bool = dry_run_field()


def command(
    session: Session, table: TableArgument, options: ManifestOptions, flags: ManifestFlags
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
    report = _run(session, table, options, flags.output_root, flags.dry_run)
    _present(session, report, options)


@contextmanager
def plan_ahead(session: Session, tables: Sequence[str], jobs: int) -> Iterator[Sequence[str]]:
    """Refuse statements for two tables of one name: the partitions of both would be in one table.

    Raises:
        UsageError: two tables have one name.
    """
    found: dict[str, str] = {}
    for table in tables if len(tables) > 1 else ():
        name = _find_ddl_name(session.for_table(table, session.output, jobs), table)
        if name is not None and (other := found.setdefault(name, table)) != table:
            raise UsageError(
                f"--ddl gives two tables the name {name!r}: {other} and {table}",
                hint="Run the command for each table alone, and rename one in its statements.",
            )
    yield tables


def _find_ddl_name(session: Session, table: str) -> str | None:
    """Return the name of a table in its statements, if they are asked for and can be written."""
    from deltactl.operations.manifest.ddl import name_table

    with suppress(DeltactlError):  # the run on this table raises it, too
        if session.take(ManifestOptions).ddl is not None:
            return name_table(session.open_table(table, read_only=True).snapshot())
    return None


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
    from deltactl.cli.pages.manifest import describe_manifests, summarise

    session.table_id = report.plan.table_id
    headline = summarise(report) if report.ddl else None
    if headline is not None:
        session.output.note(headline)
    session.present(
        lambda: describe_manifests(report),
        shows_command=not report.ddl,
        rows=report.partitions(),
        headline=headline,
        is_work_needed=options.check and not report.plan.is_empty,
        is_idle=report.plan.is_empty,
        version_before=report.version_before,
        version_after=report.plan.version,
        result=report.to_dict(),
    )
