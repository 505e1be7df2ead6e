"""What is done with a block, by its language: a check fails, and says what is wrong."""

import ast
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator
from functools import cache
from itertools import dropwhile, groupby
from typing import Any, Final

import yaml

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.group import load_command
from tests.conftest import REPOSITORY
from tests.docs import airflow_stub
from tests.docs.blocks import Block
from tests.docs.sandbox import Sandbox, is_shown, read_commands, read_screen, without_comment
from tests.support.json_schema import problems

SPECS = {spec.name: spec for spec in COMMANDS}
_ROOT_OPTIONS = ("--version", "--help", "--install-completion", "--show-completion", "-v", "-h")


# -- the command line ------------------------------------------------------------------------------


def parse(command: str) -> None:
    """Parse a command line as the program would, without running it."""
    words = shlex.split(command, comments=True)
    assert words[0] == "deltactl", command
    if words[1] in _ROOT_OPTIONS:
        return
    assert words[1] in SPECS, f"there is no command {words[1]!r}: {command}"
    load_command(SPECS[words[1]]).make_context(words[1], words[2:])


@cache
def options_of(name: str) -> frozenset[str]:
    found = {word for param in load_command(SPECS[name]).params for word in param.opts}
    return frozenset(found | {"--help", "-h"})


@cache
def all_options() -> frozenset[str]:
    return frozenset().union(*map(options_of, SPECS), _ROOT_OPTIONS)


def find_commands(text: str) -> Iterator[str]:
    """Every call of deltactl in lines of shell: after pipes and prompts, up to the next one."""
    for line in read_commands(text):
        lexer = shlex.shlex(without_comment(line), posix=True, punctuation_chars="|;&<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        for is_end, part in groupby(lexer, lambda word: not word.strip("|;&<>")):
            words = list(dropwhile(lambda word: re.match(r"\w+=", word), part))
            if not is_end and words[:1] == ["deltactl"]:
                yield shlex.join(words)


def check_synopsis(text: str) -> None:
    """Placeholders do not parse; but the command and each of its options have to exist."""
    name = None
    for line in text.splitlines():
        named = re.match(r"deltactl ([a-z-]+)", line)
        name = named[1] if named else name
        assert name in SPECS, f"there is no command {name!r}"
        unknown = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", line)) - options_of(name)
        assert not unknown, f"{name} has no {sorted(unknown)}"


# -- languages -------------------------------------------------------------------------------------


def run(block: Block, box: Sandbox, command: str, statuses: Collection[int] = (0,)) -> None:
    printed = box.run(command)
    said = f"{block.place}: `{command}` ends with {box.status}:\n{printed}"
    assert box.status in statuses, said


def check_console(block: Block, box: Sandbox) -> None:
    if block.reason:
        for typed in read_screen(block.text):
            for command in find_commands(typed.command):
                parse(command)
        return
    screen = read_screen(block.text)
    for typed in screen:
        printed = box.unplace(box.run(typed.command))
        assert is_shown(typed.shown, printed), (
            f"{block.place}: `{typed.command}` prints\n\n{printed}\n"
            "`python -m tests.docs` shows it in the page"
        )
    wanted = int(block.said.get("exit", 0))
    assert box.status == wanted, f"{block.place}: the last command ends with {box.status}"


def check_shell(block: Block, box: Sandbox) -> None:
    if block.reason:
        for command in find_commands(block.text):
            parse(command)
        _check_spark_submit(block)
        return
    for command in read_commands(block.text):
        # A comment may tell of another end: "exit 3 when there is work".
        told = {int(status) for status in re.findall(r"# .*exits? (\d+)", command)}
        run(block, box, command, {0, *told})


def _check_spark_submit(block: Block) -> None:
    """What comes after the main file is ours."""
    for line in read_commands(block.text):
        words = shlex.split(line)
        if words[0] == "spark-submit":
            main = [n for n, word in enumerate(words) if "deltactl.__main__" in word]
            assert main, f"{block.place}: the main file is another"
            parse(shlex.join(["deltactl", *words[main[0] + 1 :]]))


def check_python(block: Block, box: Sandbox) -> None:
    if block.said.get("checked") in ("walkthrough", "operator", "asset"):
        return  # tests/docs/test_walkthroughs.py, test_orchestrators.py
    tree = ast.parse(box.place(block.text))
    if "airflow" in block.text:
        for command in airflow_stub.commands_of(block.text):
            run(block, box, command)
        return
    if block.reason:
        tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(tree, block.place, "exec"), {"__name__": "__main__"})


def check_toml(block: Block, box: Sandbox) -> None:
    (box.folder / "deltactl.toml").write_text(box.place(block.text))
    run(block, box, "deltactl config")
    assert problems(tomllib.loads(block.text), "settings.json") == []


_OF_CRON = "$HOME/deltactl/bin/"  # where the README installs the program


def check_crontab(block: Block, box: Sandbox) -> None:
    for line in read_commands(block.text):
        *when, command = line.split(maxsplit=5)
        _check_schedule(" ".join(when))
        assert command.startswith(_OF_CRON), "cron does not find a program without its path"
        command = command.removeprefix(_OF_CRON)
        for part in find_commands(command):
            parse(part)
        run(block, box, command)


def _check_schedule(text: str) -> None:
    fields = text.split()
    tops = (59, 23, 31, 12, 7)
    assert len(fields) == 5, text
    for value, top in zip(fields, tops, strict=True):
        assert re.fullmatch(r"(\*|\d+(-\d+)?(,\d+)*)(/\d+)?", value), text
        assert all(int(n) <= top for n in re.findall(r"\d+", value)), text


def check_yaml(block: Block, box: Sandbox) -> None:
    if block.said.get("checked") == "manifest":
        return  # tests/docs/test_container.py
    document = yaml.safe_load(block.text)
    if document.get("kind") == "CronJob":
        run(block, box, check_cron_job(document))
    else:
        _check_workflow(block, box, document)


def check_cron_job(document: dict[str, Any]) -> str:
    """Return the command of a CronJob."""
    assert document["apiVersion"] == "batch/v1"
    _check_schedule(document["spec"]["schedule"])
    job = document["spec"]["jobTemplate"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    command = shlex.join([*container.get("command", ["deltactl"]), *container["args"]])
    parse(command)
    # A policy about exit statuses works with this alone, and names the container.
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    for rule in job["podFailurePolicy"]["rules"]:
        if "onExitCodes" in rule:
            assert rule["onExitCodes"]["containerName"] == container["name"]
        for condition in rule.get("onPodConditions", ()):
            # Kubernetes has a default for the status from 1.35 on only.
            assert condition == {"type": "DisruptionTarget", "status": "True"}
    return command


def _check_workflow(block: Block, box: Sandbox, document: dict[Any, Any]) -> None:
    """GitHub's: each line to run is run, as its runners do."""
    assert {"jobs", "name"} <= document.keys()
    assert True in document, "YAML takes `on` for a truth value, and so do GitHub's runners"
    for job in document["jobs"].values():
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            if "run" in step:
                run(block, box, step["run"])
            elif "run" in step.get("with", {}):  # our action
                told = step["with"].get("allowed-statuses", "0").split()
                run(block, box, f"deltactl {step['with']['run']}", set(map(int, told)))


def check_text(block: Block, box: Sandbox) -> None:
    match block.said.get("checked"):
        case "modules":
            _check_modules(block)
        case "systemd":
            _check_units(block, box)
        case how:
            assert how is None, f"{block.place}: nothing checks a {how!r}"
            assert block.reason, f"{block.place}: text that nothing checks needs a reason"
            for command in find_commands(block.text):
                check_synopsis(command)


def _check_units(block: Block, box: Sandbox) -> None:
    """Each unit of systemd has known sections, and what it starts runs."""
    sections = set(re.findall(r"^\[(\w+)\]$", block.text, re.MULTILINE))
    assert sections <= {"Unit", "Service", "Timer", "Install"}, block.place
    told = re.findall(r"^SuccessExitStatus=(.*)$", block.text, re.MULTILINE)
    statuses = {0, *(int(status) for line in told for status in line.split())}
    started = re.findall(r"^ExecStart=\S*/(deltactl .*)$", block.text, re.MULTILINE)
    assert started, f"{block.place}: no unit starts deltactl"
    for command in started:
        run(block, box, command, statuses)


def _check_modules(block: Block) -> None:
    """Every module that a drawing names is there."""
    package = REPOSITORY / "deltactl"
    modules = {path.name for path in package.rglob("*.py")}
    for name in re.findall(r"[\w/]+\.py\b", block.text.replace("<verb>", "optimize")):
        there = any((top / name).exists() for top in (package, package / "cli", REPOSITORY))
        assert there or ("/" not in name and name in modules), f"{block.place}: no {name}"


CHECKS: Final[dict[str, Callable[[Block, Sandbox], None]]] = {
    "console": check_console,
    "sh": check_shell,
    "python": check_python,
    "toml": check_toml,
    "crontab": check_crontab,
    "yaml": check_yaml,
    "text": check_text,
}
