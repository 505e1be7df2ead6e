"""``deltactl convert``: parse options, call the operation, print its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from deltactl.cli.options.common import DryRunOption
from deltactl.cli.options.values import parse_properties
from deltactl.cli.session import Session
from deltactl.errors import ConversionError, UsageError
from deltactl.operations.convert.options import ConvertOptions, SchemaMode

if TYPE_CHECKING:
    from deltactl.operations.convert.run import ConvertReport

_DEFAULTS: Final = ConvertOptions()


def command(  # noqa: PLR0913 - one parameter an option
    ctx: typer.Context,
    table: Annotated[
        str, typer.Argument(metavar="DIR", help="Path or URI of the directory", show_default=False)
    ],
    partition_by: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMNS",
            help='Partition columns in order, with types: "date date, country string"  [default: '
            "the columns in the directory names; deltactl guesses their types from the values]",
        ),
    ] = None,
    no_statistics: Annotated[
        bool, typer.Option("--no-statistics", help="Do not write column statistics to the log")
    ] = False,
    schema_mode: Annotated[
        SchemaMode,
        typer.Option(
            help="What to do if a column has different types in different files. strict: fail. "
            "widen: use a common type"
        ),
    ] = _DEFAULTS.schema_mode,
    column_mapping: Annotated[
        bool,
        typer.Option(
            "--column-mapping",
            help="Enable column mapping by name. Then columns can have any name, and can be "
            "renamed and dropped",
        ),
    ] = False,
    table_property: Annotated[
        list[str] | None,
        typer.Option(
            "--property",
            metavar="PROPERTY=VALUE",
            help="Set this property of the table; may be repeated",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the table", show_default=False)] = None,
    sync: Annotated[bool, typer.Option("--sync", hidden=True)] = False,
    dry_run: DryRunOption = False,
) -> None:
    """Convert a directory of Parquet files to a Delta table, in place and in one commit.

    The command does not copy or change the Parquet files. It ignores files and directories whose
    names start with "_" or ".".

    After the conversion, the directory belongs to the table: only Delta writers add rows to it.
    If DIR is already a table, the command changes nothing.

    \b
    Examples:
      deltactl convert /data/events --dry-run
      deltactl convert /data/events --partition-by "date date, country string"
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    if sync:
        raise UsageError(
            "--sync was removed: after a conversion, the directory belongs to the table",
            hint="Use a Delta writer, such as Spark or delta-rs, to append other files. "
            "See docs/convert.md.",
        )
    from deltactl.operations.convert.partition_by import parse_partition_by

    options = ConvertOptions(
        partition_by=None if partition_by is None else parse_partition_by(partition_by),
        statistics=not no_statistics,
        schema_mode=schema_mode,
        column_mapping=column_mapping,
        properties=parse_properties(table_property or []),
        name=name,
    )
    from deltactl.operations.convert.run import convert_directory

    log = session.open_table(table, read_only=dry_run)
    try:
        with session.run_context("footers") as context:
            report = convert_directory(log, options, context, dry_run=dry_run)
    except ConversionError as error:
        _present_problems(session, error, dry_run)
        raise
    _present(session, report)


def _present(session: Session, report: ConvertReport) -> None:
    from deltactl.cli.pages.convert import render_report

    result = report.to_dict()
    session.present(
        lambda page: render_report(page, report, session.argv),
        rows=result.get("left_out", []),
        version_before=report.version_before,
        version_after=report.version_after,
        dry_run=report.dry_run,
        is_idle=report.plan is None,
        engine=report.engine,
        result=result,
    )


def _present_problems(session: Session, error: ConversionError, dry_run: bool) -> None:
    from deltactl.cli.pages.convert import render_problems

    if not error.problems:
        return
    rows = [{"path": path, "column": column, "reason": why} for path, column, why in error.problems]
    session.present(
        lambda page: render_problems(page, error),
        rows=rows,
        error=error,
        dry_run=dry_run,
        result={"problems": rows},
    )
