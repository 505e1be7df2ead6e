"""Each default is written once: signatures and help read it from the class that has it."""

import re
from dataclasses import asdict

import pytest

from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.group import load_command
from deltactl.cli.output.output import LogFormat, OutputFormat
from deltactl.cli.output.progress import ProgressForm
from deltactl.engine.choose import EngineName
from deltactl.storage.log_store import DynamoDbLogStore


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
