"""``deltactl generate-files``: completions and manual pages, written anew. For maintainers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltactl.cli.group import find_group
from deltactl.cli.output.page import Column
from deltactl.cli.reference.program import describe_program, render_files
from deltactl.cli.session import Session


def command(
    ctx: typer.Context,
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Root of the sources", show_default=False)
    ] = ".",
) -> None:
    """Write completions/ and man/ from the options of the commands.

    \b
    Examples:
      deltactl generate-files
      deltactl generate-files /tmp/sources
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    files = render_files(describe_program(find_group(ctx)))
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    rows = [{"file": name} for name in sorted(files)]
    session.present(
        lambda page: page.table([Column("file")], [(row["file"],) for row in rows]),
        rows=rows,
        result=rows,
    )
