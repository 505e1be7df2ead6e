"""Texts of operations name options: by flag on the command line, by keyword in the library."""

import ast
import re
from collections.abc import Callable

import pytest

import dev.keyword_types
from deltactl.cli.app import build_group
from deltactl.cli.command_table import COMMANDS
from deltactl.cli.group import load_command
from deltactl.cli.options.declared import Declared, spell_flag
from deltactl.cli.parsing.argv import typed_command
from deltactl.keywords import keyword_types
from deltactl.option_names import option, options_spelled
from dev.program import describe_program
from tests.conftest import REPOSITORY

OPERATIONS = REPOSITORY / "deltactl" / "operations"
CLASSES = {
    spec.name: kind
    for spec in COMMANDS
    for kind in load_command(spec).classes.values()
    if kind in dev.keyword_types.CLASSES.values()
}
_OPTION = re.compile(r"""option\(["'](\w+)["'](?:, ([^()]+))?\)""")


def without_declarations(source: str) -> str:
    """The source without its declarations of options, which only the command line shows."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("_option"):
            end = node.end_lineno or node.lineno
            lines[node.lineno - 1 : end] = [""] * (end - node.lineno + 1)
    return "\n".join(lines)


def options(command: str) -> list[Declared]:
    spec = next(spec for spec in COMMANDS if spec.name == command)
    return list(load_command(spec).declared.values())


def named_options(text: str) -> set[str]:
    return {match[1] for match in _OPTION.finditer(text)}


@pytest.fixture(scope="module")
def flags() -> dict[str, set[str]]:
    program = describe_program(build_group())
    return {
        doc.name: {name for described in doc.options for name in described.names}
        for _, doc in program.commands
    }


def test_no_command_that_is_shown_has_settings_of_a_service(flags: dict[str, set[str]]) -> None:
    secret = ("storage-option", "-conf", "-remote")
    found = {name for names in flags.values() for name in names if name.endswith(secret)}
    assert len(found) == 4
    for name in found:
        assert "hush" not in typed_command(["clone", name, "key=hush", f"{name}=key=hush"])


@pytest.mark.parametrize("command", CLASSES)
def test_options_in_texts_are_flags_of_the_command(
    command: str, flags: dict[str, set[str]]
) -> None:
    keywords = keyword_types(CLASSES[command])
    module = {"describe-detail": "storage", "generate-manifest": "manifest"}.get(command, command)
    texts = [path.read_text("utf-8") for path in sorted((OPERATIONS / module).rglob("*.py"))]
    named = set().union(*map(named_options, texts)) & set(keywords)
    assert named or command == "maintain"
    for name in named:
        declared = options(command)
        spelled = {spell_flag(declared, name), spell_flag(declared, name, False)}
        assert spelled & flags[command], name


def test_texts_of_operations_have_no_flags() -> None:
    """Only commands, in backticks, and texts that only the command line parses have them."""
    cli_only = {"budget.py", "policy.py", "blame.py"}
    found = []
    for path in sorted(OPERATIONS.rglob("*.py")):
        lines = without_declarations(path.read_text("utf-8")).splitlines()
        for line in lines if path.name not in cli_only else ():
            literal = re.search(r'"([^"]*)(--[a-z][a-z-]+)', line)
            if literal and '"""' not in line and not re.search(r"`|deltactl|shlex", line):
                found.append(f"{path.name}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize(
    ("command", "text", "keyword", "flag"),
    [
        ("vacuum", lambda: option("quarantine", True), "quarantine=True", "--quarantine"),
        ("clone", lambda: option("note", False), "note=False", "--no-note"),
        ("clone", lambda: option("deep", False), "deep=False", "--shallow"),
        ("checkpoint", lambda: option("kind", "v2"), "kind='v2'", "--kind v2"),
        ("restore", lambda: option("version"), "version", "--to-version"),
        ("clone", lambda: option("version"), "version", "--version"),
        ("vacuum", lambda: option("need"), "need", "--if-needed"),
        ("convert", lambda: option("unheard_of"), "unheard_of", "--unheard-of"),
    ],
)
def test_values(command: str, text: Callable[[], str], keyword: str, flag: str) -> None:
    assert text() == keyword
    with options_spelled(lambda name, value: spell_flag(options(command), name, value)):
        assert text() == flag
