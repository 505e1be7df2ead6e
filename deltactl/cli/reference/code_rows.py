"""Describe the codes that deltactl prints, for ``deltactl explain`` and the pages."""

from __future__ import annotations

from typing import Any, Final

from deltactl.cli.exits import ExitCode
from deltactl.codes import Code, load_codes
from deltactl.errors import DeltactlError

_FINDING: Final = "check changes nothing."


def load_error_classes(root: type[DeltactlError] = DeltactlError) -> dict[str, type[DeltactlError]]:
    """Return every class of error by its code, in the order of the tree."""
    found = {root.code: root}
    for error in root.__subclasses__():
        found |= load_error_classes(error)
    return found


def describe_codes() -> list[dict[str, Any]]:
    """Return a row for each code, by exit status; reasons, which have none, are last."""
    errors = load_error_classes()
    rows = [_row(code, errors.get(name)) for name, code in load_codes().items()]
    return sorted(rows, key=lambda row: (row["exit_code"] or 999, row["code"]))


def describe_code(code: Code) -> dict[str, Any]:
    """Return the row of a code."""
    return _row(code, load_error_classes().get(code.name))


def _row(code: Code, error: type[DeltactlError] | None) -> dict[str, Any]:
    repair = code.repair.format(table="TABLE", file="the file")
    exit_code = ExitCode.DONE if code.printed_by else ExitCode.WORK_NEEDED
    return {
        "code": code.name,
        "exit_code": int(exit_code) if error is None else error.exit_code,
        "retryable": error is not None and error.retryable,
        "meaning": code.meaning,
        "causes": code.causes,
        "effect": _sentence(code.effect),
        "table": code.table or (_FINDING if code.severity else ""),
        "remedies": code.remedies or (_sentence(repair),),
    }


def _sentence(text: str) -> str:
    if text.startswith("deltactl "):
        return f"Run `{text}`."
    return f"{text[0].upper()}{text[1:]}." if text else ""
