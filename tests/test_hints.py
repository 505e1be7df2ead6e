"""The form of hints: what to do next, as sentences that begin with a verb."""

import ast
import functools
import re
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product

import pytest

from tests.conftest import REPOSITORY

# Verbs that a hint may begin with. A new one is added here after a look at its hint.
VERBS = frozenset(
    re.findall(
        r"\w+",
        """
        Add Allow Ask Backfill Break Change Check Choose Commit Compare Convert Copy Correct Delete
        Do Drop Fix Free Give Inspect Install Keep Leave Let Look Move Name Omit Open Put Quote
        Raise Read Recreate Remount Remove Replace Report Rerun Restore Rewrite Run See Set
        Shorten Specify Split Start Stop Unset Upgrade Use Wait Write
        """,
    )
)
HOLE = "\0"
# "For a requester-pays bucket, add ...": a condition may come before the verb.
OPENING = re.compile(r"(?:(?:If|For|To|On|Without) [^.]*?, )?`?(\w+)")


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Return each module of deltactl, parsed."""
    return {
        str(path.relative_to(REPOSITORY)): ast.parse(path.read_text("utf-8"))
        for path in sorted((REPOSITORY / "deltactl").rglob("*.py"))
    }


def is_text(value: ast.expr) -> bool:
    match value:
        case ast.IfExp(body=part) | ast.BinOp(left=part):
            return is_text(part)
    return isinstance(value, ast.Constant | ast.JoinedStr)


@functools.cache
def values_by_name() -> dict[str, list[ast.expr]]:
    """Return what each constant is set to, and what each function returns."""
    values: dict[str, list[ast.expr]] = {}
    for tree in trees().values():
        for node in ast.walk(tree):
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ) if name.isupper():
                    values.setdefault(name, []).append(value)
                case ast.FunctionDef(name=name):
                    values.setdefault(name, []).extend(
                        part.value
                        for part in ast.walk(node)
                        if isinstance(part, ast.Return) and part.value is not None
                    )
    return values


def joined(texts: list[str], part: ast.expr) -> list[str]:
    """Return the texts, each with each text of the next part of an f-string."""
    match part:
        case ast.Constant(value=str(text)):
            ends = [text]
        case ast.FormattedValue(value=ast.Name(id=name)) if name.isupper():
            ends = [end for value in values_by_name()[name] for end in texts_of(value)]
        case _:
            ends = [HOLE]
    return [text + end for text in texts for end in ends]


def texts_of(value: ast.expr) -> Iterator[str]:
    """Yield the texts that an expression can give; ``HOLE`` stands for what is computed.

    Raises:
        ValueError: the expression is of a form whose texts are not known.
    """
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Constant(value=None):
            pass
        case ast.JoinedStr(values=parts):
            yield from reduce(joined, parts, [""])
        case ast.BinOp(left=first, op=ast.Add(), right=second):
            yield from map("".join, product(texts_of(first), texts_of(second)))
        case ast.Name(id="hint") | ast.Attribute(attr="hint" | "how_to_give" | "how_to_renew"):
            pass  # Handed on: its texts are found where it is made.
        case _:
            for member in members_of(value):
                yield from texts_of(member)


def members_of(value: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions of which an expression gives one.

    Raises:
        ValueError: the expression is of a form whose texts are not known.
    """
    match value:
        case ast.IfExp(body=first, orelse=second) | ast.BoolOp(values=[first, second]):
            return [first, second]
        case ast.Dict(values=items):
            return items
        case ast.Subscript(value=ast.Name() as table):
            return [table]
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if (
            name in values_by_name()
        ):
            return values_by_name()[name]
        case _:
            raise ValueError(f"unknown form of a hint: {ast.unparse(value)}")


def values_of(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions of the hints that a node gives."""
    match node:
        case ast.keyword(arg="hint" | "how_to_give" | "how_to_renew", value=value):
            yield value
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value)
            | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
        ):
            if name.endswith("_HINTS") and isinstance(value, ast.Dict):
                yield from value.values
            elif (
                name in ("hint", "how_to_give", "how_to_renew") or name.endswith("_HINT")
            ) and is_text(value):
                yield value
        case ast.Tuple(elts=[ast.Name(id=name), ast.Constant(value=str()) as value]):
            # A class of errors and its hint, in a table.
            if name.endswith("Error"):
                yield value
        case ast.FunctionDef(args=ast.arguments(kwonlyargs=names, kw_defaults=defaults)):
            for parameter, default in zip(names, defaults, strict=True):
                if parameter.arg == "hint" and default is not None:
                    yield default


def hints() -> Iterator[tuple[str, str]]:
    for path, tree in trees().items():
        for node in ast.walk(tree):
            for value in values_of(node):
                for text in texts_of(value):
                    yield f"{path}:{value.lineno}", text


def problem_of(hint: str) -> str | None:
    """Return what is wrong with the form of a hint."""
    if not hint.endswith((".", HOLE)):
        return "ends without a full stop"
    if re.search(r"\b[Rr]un again\b", hint):
        return 'says "run again" for "rerun"'
    verb = OPENING.match(hint)
    if verb is None or verb[1].capitalize() not in VERBS:
        return "its first sentence does not begin with a verb of the list"
    if not (hint[0].isupper() or hint[0] == "`"):
        return "begins with a small letter"
    return None


@pytest.mark.parametrize(
    ("hint", "has_problem"),
    [
        ("Rerun with --force-retention.", False),
        ("Rerun. Nothing was committed.", False),
        ("For a requester-pays bucket, add an option.", False),
        ("Nothing was committed. Rerun.", True),
        ("Run again.", True),
        ("rerun", True),
        ("Rerun", True),
        ("The file is damaged.", True),
    ],
)
def test_the_form_is_recognized(hint: str, has_problem: bool) -> None:
    assert (problem_of(hint) is not None) is has_problem


def test_hints_have_one_form() -> None:
    found = list(hints())
    assert len(found) > 230
    wrong = [(place, hint, problem) for place, hint in found if (problem := problem_of(hint))]
    assert wrong == []


def test_a_hint_is_given_by_its_name() -> None:
    by_place = [
        f"{path}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for parameter in (*node.args.posonlyargs, *node.args.args)
        if parameter.arg == "hint"
        and parameter.annotation is not None
        and ast.unparse(parameter.annotation).startswith("str")
    ]
    assert by_place == []
