"""``deltactl explain``: the meaning of a code, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.cli.reference.code_rows import describe_code, describe_codes
from deltactl.cli.session import Session
from deltactl.codes import find_code, load_codes
from deltactl.errors import UsageError
from deltactl.suggest import with_suggestion


def command(
    session: Session,
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="Code of an error or a finding, such as LOG_GAP, or a reason as it is printed; "
            "without a code, list all codes",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Explain a code: what an error, a finding of check or a reason means, and what to do.

    \b
    Examples:
      deltactl explain LOG_GAP
      deltactl explain "not worth a rewrite yet"
      deltactl explain
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    if session.wrong_settings is not None:
        session.output.warn(session.wrong_settings.message)
    if code is None:
        rows = describe_codes()
        session.present(lambda: [_list_all(rows)])
        return
    found = find_code(code)
    if found is None:
        name = code.strip().upper().replace("-", "_")
        raise UsageError(
            with_suggestion(f"there is no code {code!r}", name, load_codes()),
            hint="Run `deltactl explain` for a list.",
        )
    row = describe_code(found)
    session.present(lambda: _describe(row))


def _list_all(rows: list[dict[str, Any]]) -> Section:
    columns = [
        Column("code", tone=Tone.STRONG),
        Column("exit", Kind.NUMBER),
        Column("meaning", Kind.DETAIL),
    ]
    shown = [(row["code"], row["exit_code"] or None, row["meaning"]) for row in rows]
    return Section(table=Table(columns, shown, most=None))


def _describe(row: dict[str, Any]) -> Iterator[Section]:
    again = ", can be retried" if row["retryable"] else ""
    status = f"  exit status {row['exit_code']}{again}" if row["exit_code"] else ""
    yield Section((Tone.STRONG(row["code"]), status), notes=[row["meaning"]])
    for heading, texts in (
        ("Causes", row["causes"]),
        ("Readers", filter(None, [row["effect"]])),
        ("The table", filter(None, [row["table"]])),
        ("What to do", row["remedies"]),
    ):
        if lines := list(texts):
            yield Section(Tone.STRONG(heading), notes=lines)
