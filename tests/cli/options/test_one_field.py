"""A new option is one field and one use of it; everything else is made from the field."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from deltactl.cli.app import build_group
from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.options.engine import EngineOptions
from deltactl.cli.reference.install import Shell
from deltactl.errors import UsageError
from deltactl.keywords import build_options
from dev.completions import render_completion
from dev.keyword_types import render_class
from dev.manual import render_manual
from dev.program import describe_program
from dev.reference_pages import render_command
from dev.settings_schema import render_settings_schema
from tests.cli.conftest import RunCli, Shown
from tests.cli.fakes.optimize import MoreOptions
from tests.support.table_builder import Column, TableBuilder

SPECS = (
    CommandSpec("optimize", "Leave room", package="tests.cli.fakes", shared=(EngineOptions,)),
    *(spec for spec in COMMANDS if spec.name == "config"),
)


@pytest.mark.parametrize(
    ("words", "variable", "said"),
    [
        ((), None, "warning: 4096 bytes in t\n"),
        (("--spare-size", "1KiB"), "2KiB", "warning: 1024 bytes in t\n"),
        ((), "2KiB", "warning: 2048 bytes in t\n"),
        (("--spare-size", "1"), None, "error: --spare-size: size '1' has no unit\n"),
        ((), "1", "error: DELTACTL_SPARE_SIZE: size '1' has no unit\n"),
        (("--spare-share", "2"), None, "error: --spare-share: 2 is not in the range 0<=x<=1\n"),
    ],
)
def test_the_command_line_takes_it(
    cli: RunCli,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    variable: str | None,
    said: str,
) -> None:
    if variable is not None:
        monkeypatch.setenv("DELTACTL_SPARE_SIZE", variable)
    assert cli("optimize", "t", *words, specs=SPECS).err.startswith(said)


def test_a_file_of_settings_sets_it(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "deltactl.toml"
    file.write_text('[profiles.x]\ntables = ["t"]\n[profiles.x.optimize]\nspare-size = "3KiB"\n')
    monkeypatch.setenv("DELTACTL_CONFIG", str(file))
    assert cli("optimize", "t", specs=SPECS).err == "warning: 3072 bytes in t\n"
    assert cli("optimize", "u", specs=SPECS).err == "warning: 4096 bytes in u\n"


def test_config_shows_it(
    settings: Callable[..., dict[str, Shown]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert settings(specs=SPECS)["spare-size"] == ("4KiB", "default", "")
    monkeypatch.setenv("DELTACTL_SPARE_SIZE", "2KiB")
    expected = ("2KiB", "environment", "DELTACTL_SPARE_SIZE")
    assert settings(specs=SPECS)["spare-size"] == expected


def test_config_shows_the_property_of_the_table(
    settings: Callable[..., dict[str, Shown]], tmp_path: Path
) -> None:
    TableBuilder(tmp_path, [Column("id")], properties={"spare.share": "0.7"})
    shown = settings(str(tmp_path), specs=SPECS)["spare-share"]
    assert shown == ("0.7", "table property", "spare.share")


def test_the_schema_of_settings_has_it() -> None:
    schema = json.loads(render_settings_schema(SPECS))
    about = {"description": "Leave this much room  [default: 4KiB]", "type": "string"}
    assert schema["$defs"]["spare-size"] == about
    for section in (schema, schema["$defs"]["optimize"]):
        assert section["properties"]["spare-size"] == {"$ref": "#/$defs/spare-size"}


def test_help_pages_and_completions_have_it(cli: RunCli) -> None:
    assert "--spare-size SIZE" in cli("optimize", "--help-all", specs=SPECS).out
    assert "--spare-size" not in cli("optimize", "--help", specs=SPECS).out
    assert "--spare-share X" in cli("optimize", "--help", specs=SPECS).out
    program = describe_program(build_group(SPECS))
    manual = render_manual(program)["deltactl-optimize.1"]
    assert "Leave this much room [default: 4KiB]" in manual
    assert "DELTACTL_SPARE_SIZE" in manual
    for shell in Shell:
        assert "spare-size" in render_completion(shell, program)
    (page,) = (render_command(doc) for _, doc in program.commands if doc.name == "optimize")
    assert "`--spare-size` `SIZE`" in page


def test_the_library_takes_it() -> None:
    assert build_options(MoreOptions, None, {"spare_bytes": "1KiB"}).spare_bytes == 1024
    with pytest.raises(UsageError, match=r"^spare_bytes: size '1' has no unit$"):
        build_options(MoreOptions, None, {"spare_bytes": "1"})
    with pytest.raises(UsageError, match=r"^spare_share must be between 0 and 1$"):
        build_options(MoreOptions, None, {"spare_share": 2})
    source = render_class("MoreKeywords", MoreOptions, {}) + "\n"
    assert "    spare_bytes: int | str\n" in source
    assert "``spare_bytes`` is ``--spare-size``" in " ".join(source.split())


def test_other_commands_do_not_take_it(cli: RunCli) -> None:
    assert cli("optimize", "t", "--spare-size", "1KiB").code == 2
