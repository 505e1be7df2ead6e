"""What a command does without options is what the library does without options.

Each default is written once: signatures and help read it from the class that has it.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import pytest

from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.group import load_command
from deltactl.cli.output.output import LogFormat, OutputFormat
from deltactl.cli.output.progress import ProgressForm
from deltactl.engine.choose import EngineName
from deltactl.errors import DeltactlError
from deltactl.operations.check.options import CheckOptions
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.optimize.options import OptimizeOptions
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.storage.local.store import LocalStore
from deltactl.storage.log_store import DynamoDbLogStore
from tests.cli.conftest import RunCli
from tests.support.table_builder import Column, TableBuilder


@pytest.mark.parametrize(
    ("command", "operation", "options"),
    [
        ("optimize", "optimize.run.optimize_table", OptimizeOptions),
        ("vacuum", "vacuum.run.vacuum_table", VacuumOptions),
        ("checkpoint", "checkpoint.run.checkpoint_table", CheckpointOptions),
        ("generate-manifest", "purge_first.generate_after_purge", ManifestOptions),
        ("convert", "convert.run.convert_directory", ConvertOptions),
        ("check", "check.run.check_table", CheckOptions),
    ],
)
def test_defaults_are_those_of_the_library(
    cli: RunCli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    operation: str,
    options: Callable[[], object],
) -> None:
    builder = TableBuilder(LocalStore(str(tmp_path / "t")), [Column("id")])
    builder.append([{"id": 1}])
    given: list[object] = []

    def keep(store: object, given_options: object, *rest: Any, **named: Any) -> NoReturn:
        given.append(given_options)
        raise DeltactlError("kept")

    module, _, function = operation.rpartition(".")
    monkeypatch.setattr(importlib.import_module(f"deltactl.operations.{module}"), function, keep)
    ran = cli(command, str(tmp_path / "t"))
    assert (ran.code, "error: kept" in ran.err) == (1, True)
    assert list(map(_chosen, given)) == [_chosen(options())]


def _chosen(options: Any) -> dict[str, object]:
    """What nobody had to look at the machine for."""
    return {name: value for name, value in asdict(options).items() if name != "memory_bytes"}


@pytest.mark.parametrize("spec", COMMANDS, ids=lambda spec: spec.name)
def test_help_repeats_no_default(spec: CommandSpec) -> None:
    texts = [option.option.help for option in load_command(spec).declared.values()]
    assert [text for text in texts if _REPEATED.search(text)] == []


_VALUES = (
    *(name for kind in (EngineName, LogFormat, OutputFormat, ProgressForm) for name in kind),
    *asdict(DynamoDbLogStore()).values(),
)
# A number, or a name that is a default, such as "by default auto"; not "S3" and "local[*]".
_REPEATED = re.compile(
    r"(?:\[default: |by default )(?:[^\]{}]*?(?<![A-Za-z])\d|"
    rf"(?:{'|'.join(_VALUES)})\b(?!\[))"
)
