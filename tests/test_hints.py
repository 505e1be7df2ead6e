"""The form of hints: what to do next, as sentences that begin with a verb."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.conftest import REPOSITORY

# Verbs that a hint may begin with. A new one is added here after a look at its hint.
VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        Add Allow Ask Backfill Change Check Choose Commit Compare Convert Copy Correct Delete Do
        Drop Fix Free Give Inspect Install Keep Leave Let Look Move Name Omit Open Put Quote
        Raise Read Recreate Remount Remove Replace Report Rerun Restore Rewrite Run See Set
        Shorten Specify Split Start Stop Unset Upgrade Use Wait Write
        """,
    )
)
HOLE = "\0"
FILES = sorted((REPOSITORY / "deltactl").rglob("*.py"))


def texts_of(value: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression can give; ``HOLE`` stands for what is computed."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else HOLE for p in parts)
        case ast.IfExp(body=first, orelse=second) | ast.BoolOp(values=[first, second]):
            yield from texts_of(first)
            yield from texts_of(second)
        case ast.BinOp(left=first, op=ast.Add(), right=second):
            for head in texts_of(first):
                for tail in texts_of(second):
                    yield head + tail


def hints() -> Iterator[tuple[str, str]]:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.keyword(arg="hint", value=value):
                    pass
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ) if name == "hint" or name.endswith("_HINT"):
                    pass
                case _:
                    continue
            for text in texts_of(value):
                place = f"{path.relative_to(REPOSITORY)}:{value.lineno}"
                yield place, text


def problem_of(hint: str) -> str | None:
    """Return what is wrong with the form of a hint."""
    if not hint.rstrip(HOLE):
        return None
    if not hint.endswith((".", HOLE)):
        return "ends without a full stop"
    if not (hint[0].isupper() or hint[0] in "`" + HOLE):
        return "begins with a small letter"
    begins = re.findall(r"(?:^|[.:;] |\.\n)([A-Z][a-z]+)", hint)
    if not VERBS.intersection(begins):
        return "has no sentence that begins with a verb of the list"
    return None


@pytest.mark.parametrize(
    ("hint", "has_problem"),
    [
        ("Rerun with --force-retention.", False),
        ("Nothing was committed. Rerun.", False),
        ("rerun", True),
        ("Rerun", True),
        ("The file is damaged.", True),
    ],
)
def test_the_form_is_told(hint: str, has_problem: bool) -> None:
    assert (problem_of(hint) is not None) is has_problem


def test_hints_have_one_form() -> None:
    found = list(hints())
    assert len(found) > 150
    wrong = [(place, hint, problem) for place, hint in found if (problem := problem_of(hint))]
    assert wrong == []
