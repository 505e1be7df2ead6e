"""``deltactl register``: parse options, call the operation, print its report."""

from __future__ import annotations

from typing import Annotated

from deltactl.cli.options.common import DryRunFlags, TableArgument, argument
from deltactl.cli.session import Session
from deltactl.operations.register.options import RegisterOptions
from deltactl.option_names import option


def command(
    session: Session,
    table: TableArgument,
    name: Annotated[str, argument("NAME", "Name in the catalog, such as glue://DATABASE.TABLE")],
    options: RegisterOptions,
    flags: DryRunFlags,
) -> None:
    """Register a table in AWS Glue, a Hive metastore or Unity Catalog.

    The catalog gets an external table with the location, columns and comments of the log. Athena,
    Trino, Redshift Spectrum and Spark find it by its name. Data and log are not changed.

    \b
    Examples:
      deltactl register s3://lake/events glue://sales.events
      deltactl register s3://lake/events glue://sales.events --sync
      deltactl register s3://lake/events hive://sales.events_manifest --manifest
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    from deltactl.catalog.names import parse_name
    from deltactl.catalog.open import connect_to
    from deltactl.cli.pages.creation import describe_registration
    from deltactl.operations.register.run import register_table

    parsed = parse_name(name)
    log = session.open_log(table)
    with session.run_context("register") as context:
        catalog = connect_to(parsed, session.catalog_options)
        report = register_table(log, parsed, catalog, options, context, dry_run=flags.dry_run)
    result = report.to_dict()
    session.present(
        lambda: describe_registration(report),
        rows=[result],
        is_work_needed=options.check and not report.is_done,
        is_idle=report.is_done,
        version_before=report.version,
        needed_flags=[] if report.needs is None else [option(report.needs, True)],
        result=result,
    )
