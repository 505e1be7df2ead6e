"""Help, versions, explanations and suggestions: what a person meets first."""

import re
import shlex
from importlib.metadata import version
from typing import Any

import pytest

from deltactl.cli.command_table import COMMANDS, CommandSpec
from deltactl.cli.group import load_command
from deltactl.cli.help import CommandDoc, describe_command, split_examples
from deltactl.option_fields import Group
from deltactl.suggest import find_nearest
from tests.cli.conftest import RunCli
from tests.cli.test_app import HEAVY


def doc_of(spec: CommandSpec) -> CommandDoc:
    return describe_command(load_command(spec))


SHOWN = [spec for spec in COMMANDS if not spec.is_hidden]
BY_NAME = pytest.mark.parametrize("spec", SHOWN, ids=lambda spec: spec.name)


@BY_NAME
def test_help_opens_with_examples_and_ends_with_the_exit_statuses(
    cli: RunCli, spec: CommandSpec
) -> None:
    assert len(cli(spec.name, "--help").out.splitlines()) <= 60
    ran = cli(spec.name, "--help-all")
    lines = ran.out.splitlines()
    assert lines[0].startswith(f"Usage: deltactl {spec.name} [OPTIONS]")
    assert lines[1:3] == ["", "Examples:"]
    assert lines[3].startswith(f"  deltactl {spec.name}")
    assert lines[4].startswith(f"  deltactl {spec.name}")
    assert lines[-1] == "  143  stopped by SIGTERM/SIGHUP, or ended 5min after --timeout"
    headings = [line[:-1] for line in lines if re.fullmatch(r"[A-Z][a-z]+:", line)]
    groups = [heading for heading in headings if heading in set(Group)]
    assert groups == [group for group in Group if group in groups]
    assert "Options" not in headings


@BY_NAME
def test_examples_of_help_are_command_lines_that_parse(spec: CommandSpec) -> None:
    command: Any = load_command(spec)
    for example in doc_of(spec).examples:
        program, name, *args = shlex.split(example)
        assert (program, name) == ("deltactl", spec.name)
        command.make_context(name, args)


@BY_NAME
def test_every_option_is_in_the_help(cli: RunCli, spec: CommandSpec) -> None:
    text = cli(spec.name, "--help-all").out
    for option in doc_of(spec).options:
        assert re.search(rf"(^|[ ,])--{option.name}\b", text), option.name
        assert option.help, f"{option.name} says nothing"


def test_an_example_stays_on_one_line_in_a_narrow_terminal(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "52")
    assert (
        "  deltactl generate-manifest s3a://lake/events --scheme-map s3a=s3 --ddl athena\n"
        in cli("generate-manifest", "--help").out
    )


@pytest.mark.parametrize("width", [40, 61, 62, 80])
def test_no_line_of_help_ends_inside_a_name(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = cli("clone", "--help-all").out.splitlines()
    assert any("us-east-1" in line for line in lines)
    assert not [line for line in lines if line.endswith("-")]


def test_examples_are_parted_from_the_text() -> None:
    text, examples = split_examples(
        "One\n    line.\n\n    Two.\n\n    \b\n    Examples:\n      x y\n"
    )
    assert (text, examples) == (("One line.", "Two."), ("x y",))


def test_version_with_verbose_names_engines_and_libraries(cli: RunCli) -> None:
    for args in (["--version", "-v"], ["-v", "--version"]):
        out = cli(*args).out
        assert re.search(rf"^pyarrow +{re.escape(version('pyarrow'))}$", out, re.MULTILINE)
        assert re.search(r"^engine +spark: \S", out, re.MULTILINE)
        assert re.search(r"^python +3\.", out, re.MULTILINE)


def test_versions_do_not_import_what_they_name(process: RunCli) -> None:
    program = (
        "import sys; from deltactl.cli.app import run; code = run(['--version', '-v']); "
        f"sys.stderr.write(','.join(m for m in {HEAVY} if m in sys.modules)); sys.exit(code)"
    )
    ran = process("-c", program)
    assert (ran.code, ran.err) == (0, "")


def test_an_option_that_does_not_exist_is_an_error_of_the_command(cli: RunCli) -> None:
    assert cli("optimize", "t", "--nope", "-o", "json").document["command"] == "optimize"


def test_options_without_a_command_are_an_error(cli: RunCli) -> None:
    ran = cli("-q")
    assert (ran.code, ran.err) == (2, "error: Missing command\nhint: See `deltactl --help`.\n")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["optimise", "t"], "No such command 'optimise'. Did you mean 'optimize'?"),
        (["optimize", "t", "--dry-rn"], "No such option: --dry-rn. Did you mean '--dry-run'?"),
        (["vacuum", "t", "--retian", "1h"], "No such option: --retian. Did you mean '--retain'?"),
        (["optimize", "t", "--zzz"], "No such option: --zzz"),
        (["vacuum", "t", "--retention"], "No such option: --retention. Did you mean '--retain'?"),
        (
            ["vacuum", "t", "--force-retenton"],
            "No such option: --force-retenton. Did you mean '--force-retention'?",
        ),
        (["compact", "t"], "No such command 'compact'"),
        (
            ["config", "--command", "optimise"],
            "there is no command 'optimise'. Did you mean 'optimize'?",
        ),
        (["config", "vacum"], "there is no command or table 'vacum'. Did you mean 'vacuum'?"),
        (
            ["optimize", "t", "--include-clustered"],
            "No such option: --include-clustered. Did you mean '--min-cluster-size'?",
        ),
        (
            ["optimize", "t", "--verify", "ful"],
            "--verify: 'ful' is not possible. Did you mean 'full'?",
        ),
        (
            ["optimize", "t", "--engine", "loc"],
            "--engine: 'loc' is not possible. Did you mean 'local'?",
        ),
        (
            ["optimize", "t", "--codec", "zst:3"],
            "--codec: the codec 'zst:3' is not NAME or NAME:LEVEL. Did you mean 'zstd'?",
        ),
        (
            ["check", "t", "--fix", "missing-file"],
            "--fix: 'missing-file' is not possible. Did you mean 'missing-files'?",
        ),
        (["explain", "LOG_GPA"], "there is no code 'LOG_GPA'. Did you mean 'LOG_GAP'?"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(
    cli: RunCli, args: list[str], message: str
) -> None:
    ran = cli(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}\nhint: ")


def test_nothing_near_is_suggested_for_what_is_far() -> None:
    assert find_nearest("quantum", ["json", "csv"]) is None
    assert find_nearest("JSN", ["json", "csv"]) == "json"
    assert find_nearest("", ["json"]) is None


@pytest.mark.parametrize(
    ("command", "option", "value"),
    [
        ("generate-manifest", "--ddl", "athena|trino"),
        ("check", "--fix", "path-encoding"),
        ("vacuum", "--undo", "RUN"),
        ("describe-history", "--blame", "PARTITION"),
        ("optimize", "--where", "SQL"),
    ],
)
def test_an_option_without_its_value_says_which_there_are(
    cli: RunCli, command: str, option: str, value: str
) -> None:
    ran = cli(command, "t", option)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {option} needs a value\nhint: Write `{option} ")
    assert value in ran.err
    assert f"See `deltactl {command} --help`." in ran.err
