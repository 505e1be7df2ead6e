"""Values read at once are what Typer would have read, and all others are left to it."""

from __future__ import annotations

import subprocess
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer

from deltactl.cli.app import build_group
from deltactl.cli.command_table import COMMANDS
from deltactl.cli.group import load_command
from deltactl.storage.local.store import LocalStore
from tests.support.table_builder import Column, TableBuilder

TEXTS = [
    *("", "0", "1", "7", "007", "-1", "+5", "1_000", " 5", "5.0", "1.5", "0.05", "1e3", "nan"),
    *("inf", "9" * 20, "0.1234567890123", ".5", "5.", "\u0663", "true", "json", "JSON", "table"),
    *("auto", "none", "local", "x", "size=1", "\udcff"),
]  # fmt: skip


def params() -> list[Any]:
    """One of each kind of parameter that any command has."""
    found: dict[str, Any] = {}
    for command in (build_group(), *map(load_command, COMMANDS)):
        ctx = command.make_context(command.name or "", [], resilient_parsing=True)
        listed: list[Any] = command.get_params(ctx)
        for param in listed:
            facts = (param.type_descriptor.annotation, param.multiple, param.nargs, param.required)
            limits = (getattr(param, "min", None), getattr(param, "max", None))
            found.setdefault(repr((facts, limits, param.callback is None)), param)
    return list(found.values())


def outcome(read: Any, value: Any) -> tuple[str, str]:
    try:
        result = read(typer.Context(typer.core.TyperCommand("x")), value)
    except typer.TyperException as error:
        return type(error).__name__, error.format_message()
    return type(result).__name__, repr(result)


@pytest.mark.parametrize("param", params(), ids=lambda param: param.name)
def test_what_is_read_at_once_is_what_typer_reads(param: Any) -> None:
    is_several = getattr(param, "multiple", False) or param.nargs == -1
    values: list[Any] = [None, *TEXTS, True, False, 1, 2.0]
    if is_several:
        values = [None, (), *([text] for text in TEXTS), ["1", "2"], ("1", "x")]
    if param.callback is not None:
        values = [None, False]
    kind = param.type_descriptor.annotation
    if isinstance(kind, type) and issubclass(kind, Enum):
        values += [*kind, *(member.value for member in kind)]
    if get_origin(kind) is Literal:
        values += get_args(kind)
    for value in values:
        ours = outcome(param.process_value, value)
        assert ours == outcome(lambda c, v: type(param).process_value(param, c, v), value), value


@pytest.mark.parametrize("arguments", [(), ("--limit", "2", "-o", "json", "--since", "1d")])
def test_a_usual_command_line_loads_no_validator(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    TableBuilder(LocalStore(str(tmp_path)), [Column("id")]).append([{"id": 1}])
    program = (
        "import sys; from deltactl.cli.app import run; code = run(sys.argv[1:]); "
        "sys.exit('pydantic' in sys.modules or 'pandas' in sys.modules or code)"
    )
    command = [sys.executable, "-c", program, "describe-history", str(tmp_path), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_plain_rows_of_commits_load_no_arrow(tmp_path: Path) -> None:
    builder = TableBuilder(LocalStore(str(tmp_path)), [Column("id")])
    for number in range(3):
        builder.append([{"id": number}])
    builder.checkpoint()
    program = (
        "import sys; from deltactl.cli.app import run; code = run(sys.argv[1:]); "
        "sys.exit('pyarrow' in sys.modules or 'numpy' in sys.modules or code)"
    )
    for form in ("json", "ndjson", "csv"):
        arguments = ["describe-history", str(tmp_path), "--limit", "2", "-o", form]
        command = [sys.executable, "-c", program, *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (ran.returncode, bool(ran.stdout)) == (0, True), ran.stderr


def test_a_wrong_value_is_still_reported_by_typer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "deltactl", "describe-history", str(tmp_path), "--limit", "x"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2
    assert "--limit" in ran.stderr
