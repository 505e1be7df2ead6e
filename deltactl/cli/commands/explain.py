"""``deltactl explain``: the meaning of a code, and what to do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from deltactl.cli.exits import ExitCode
from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.parsing.suggest import with_suggestion
from deltactl.cli.reference.explanations import EXPLANATIONS, load_error_classes
from deltactl.cli.session import Session
from deltactl.errors import DeltactlError, UsageError
from deltactl.operations.check.codes import CODES, CheckCode


def command(
    ctx: typer.Context,
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="CODE",
            help="Code of an error or a finding, such as LOG_GAP; without a code, list all codes",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Explain the code of an error, or of a finding of check: its meaning, and what to do.

    \b
    Examples:
      deltactl explain LOG_GAP
      deltactl explain
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    session = Session.of(ctx)
    known = {name: _row(name, error) for name, error in load_error_classes().items()}
    known = {**{name: _finding_row(it) for name, it in CODES.items()}, **known}
    if code is None:
        rows = sorted(known.values(), key=lambda row: (row["exit_code"], row["code"]))
        session.present(lambda page: _render_all(page, rows), rows=rows, result=rows)
        return
    name = code.strip().upper().replace("-", "_")
    if name not in known:
        raise UsageError(
            with_suggestion(f"there is no code {code!r}", name, known),
            hint="Run `deltactl explain` for a list.",
        )
    row = known[name]
    session.present(lambda page: _render_one(page, row), rows=[row], result=row)


def _row(code: str, error: type[DeltactlError]) -> dict[str, Any]:
    return {
        "code": code,
        "exit_code": error.exit_code,
        "retryable": error.retryable,
        **asdict(EXPLANATIONS[code]),
    }


def _finding_row(finding: CheckCode) -> dict[str, Any]:
    repair = finding.repair.format(table="TABLE", file="the file")
    is_command = repair.startswith("deltactl ")
    return {
        "code": finding.name,
        "exit_code": int(ExitCode.WORK_NEEDED),
        "retryable": False,
        "meaning": f"check found a problem: {finding.meaning}.",
        "causes": (),
        "table": "check changes nothing.",
        "remedies": (f"Run `{repair}`." if is_command else f"{repair[0].upper()}{repair[1:]}.",),
    }


def _render_all(page: Page, rows: list[dict[str, Any]]) -> None:
    page.table(
        [Column("code"), Column("exit", right=True), Column("meaning", elastic=True)],
        [(Styled(row["code"], Tone.STRONG), str(row["exit_code"]), row["meaning"]) for row in rows],
    )


def _render_one(page: Page, row: dict[str, Any]) -> None:
    again = ", can be retried" if row["retryable"] else ""
    page.line(Styled(row["code"], Tone.STRONG), f"  exit status {row['exit_code']}{again}")
    page.line()
    page.wrapped(row["meaning"])
    page.line()
    for heading, texts in (
        ("Causes", row["causes"]),
        ("The table", [row["table"]]),
        ("What to do", row["remedies"]),
    ):
        if not texts:
            continue
        page.line(Styled(heading, Tone.STRONG))
        for text in texts:
            page.wrapped(text, indent="  ")
