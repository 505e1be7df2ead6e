"""Completions and manual pages: fresh, rendered by man, and loaded by real shells."""

import functools
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.reference.install import (
    COMPLETION_FILES,
    Shell,
    detect_shell,
    find_place,
    find_script,
    install_completion,
)
from deltactl.errors import UsageError
from deltactl.protocol import properties
from deltactl.protocol.property_rules import RULES
from deltactl.storage.local.store import LocalStore
from dev import keyword_types, settings_schema
from dev.generate_files import main, render_files
from tests.cli.conftest import RunCli
from tests.conftest import REPOSITORY
from tests.support.table_builder import Column, TableBuilder

SHOWN = [spec.name for spec in COMMANDS if not spec.is_hidden]
PAGES = sorted(path.name for path in (REPOSITORY / "man").glob("*.1"))


@pytest.fixture(scope="module")
def fresh() -> dict[str, str]:
    return render_files()


def test_what_is_checked_in_is_fresh(fresh: dict[str, str]) -> None:
    stale = [n for n, text in fresh.items() if _read(REPOSITORY / n) != text]
    assert stale == [], "run `python -m dev.generate_files`"
    folders = (REPOSITORY / "man", REPOSITORY / "completions")
    there = {str(p.relative_to(REPOSITORY)) for folder in folders for p in folder.iterdir()}
    assert there == set(fresh) - {keyword_types.FILE, settings_schema.FILE}


def _read(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def test_the_files_are_written(tmp_path: Path, fresh: dict[str, str]) -> None:
    main(str(tmp_path))
    for name, text in fresh.items():
        assert (tmp_path / name).read_text("utf-8") == text


def test_hidden_commands_have_no_page() -> None:
    assert {f"deltactl-{name}.1" for name in SHOWN} | {"deltactl.1"} == set(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_manual_page_has_its_sections(fresh: dict[str, str], name: str) -> None:
    sections = re.findall(r"^\.SH (.*)$", fresh[f"man/{name}"], re.MULTILINE)
    wanted = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "FILES"]
    assert [s for s in sections if s != "COMMANDS"] == [*wanted, "ENVIRONMENT", "SEE ALSO"]


def test_a_manual_page_says_what_the_variable_of_a_flag_contains(fresh: dict[str, str]) -> None:
    lines = fresh["man/deltactl-vacuum.1"].splitlines()
    flag = lines[lines.index('.B "DELTACTL_QUIET"') + 1]
    assert flag.startswith("Whether to use \\-\\-quiet (1 or 0), ")
    option = lines[lines.index('.B "DELTACTL_RETAIN"') + 1]
    assert option.startswith("Value of \\-\\-retain, ")


@pytest.mark.parametrize("name", PAGES)
def test_a_manual_page_renders(name: str) -> None:
    page = str(REPOSITORY / "man" / name)
    if not (shutil.which("mandoc") or _has_man()):
        pytest.skip("neither mandoc nor man is installed")
    if shutil.which("mandoc"):
        done = _run(["mandoc", "-Tlint", "-Wwarning", page])
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    else:
        done = _run(["man", "--warnings", "-l", page], {"MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
        assert (done.returncode, done.stderr) == (0, "")
        assert "EXIT STATUS" in done.stdout


@functools.cache
def _has_man() -> bool:
    """Whether there is a man that shows pages: images of containers have one that declines to."""
    if shutil.which("man") is None:
        return False
    page = str(REPOSITORY / "man" / "deltactl.1")
    return "deltactl" in _run(["man", "-l", page], {"MANWIDTH": "80"}).stdout


def _run(
    args: list[str], environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    # By path: otherwise a program is looked up on the caller's PATH.
    path = (environ or {}).get("PATH")
    return subprocess.run(
        [shutil.which(args[0], path=path) or args[0], *args[1:]],
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table partitioned by day and region, and ``deltactl`` on a PATH."""
    folder = tmp_path_factory.mktemp("place")
    program = folder / "bin" / "deltactl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m deltactl "$@"\n')
    program.chmod(0o755)
    (folder / "inventory.parquet").touch()
    partitions = ["day", "region"]
    columns = [Column(name, "string") for name in (*partitions, "text")]
    properties = {"custom.owner": "ann"}
    store = LocalStore(str(folder / "events"))
    TableBuilder(store, columns, partition_by=partitions, properties=properties)
    return folder


# What is typed, and a word that must be offered for it.
CASES = [
    ("deltactl opt", "optimize"),
    ("deltactl optimize --dry", "--dry-run"),
    ("deltactl optimize --engine l", "local"),
    ("deltactl --output nd", "ndjson"),
    ("deltactl -q optimize --engine=l", "local"),
    ("deltactl explain LOG_G", "LOG_GAP"),
    ("deltactl vacuum ev", "events"),
    ("deltactl vacuum other ev", "events"),
    ("deltactl vacuum events --inventory inv", "inventory.parquet"),
    ("deltactl optimize events --where re", "region"),
    ("deltactl optimize events --cluster-by te", "text"),
    ("deltactl convert events --property delta.targetF", "delta.targetFileSize"),
    ("deltactl convert events --property custom.", "custom.owner"),
]
TYPED = pytest.mark.parametrize(("typed", "offered"), CASES, ids=[typed for typed, _ in CASES])


def _require(shell: Shell) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} to load its completion")


def _environ(place: Path) -> dict[str, str]:
    path = f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "PYTHONPATH": str(REPOSITORY), "HOME": str(place)}


@TYPED
def test_bash_offers(place: Path, typed: str, offered: str) -> None:
    _require(Shell.BASH)
    script = find_script(Shell.BASH)
    program = (
        f'cd "{place}"; . "{script}"; COMP_LINE=$1; COMP_POINT=${{#1}}; '
        "COMP_WORDS=($1); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); "
        'complete -p deltactl >/dev/null && _deltactl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = _run(["bash", "--norc", "-c", program, "bash", typed], _environ(place))
    assert offered in done.stdout.split()
    assert done.stderr == ""


@TYPED
def test_fish_offers(place: Path, typed: str, offered: str) -> None:
    _require(Shell.FISH)
    script = find_script(Shell.FISH)
    program = f'cd "{place}"; source "{script}"; complete --do-complete "{typed}"'
    done = _run(["fish", "--no-config", "-c", program], _environ(place))
    words = [line.split("\t")[0].rstrip("/") for line in done.stdout.splitlines()]
    assert any(word.endswith(offered) for word in words)  # or `--option=value` whole
    assert done.stderr == ""


@pytest.fixture(scope="module")
def zsh(place: Path) -> Iterator[int]:
    """A zsh at a terminal, where alone it completes, with nothing but our completion loaded."""
    _require(Shell.ZSH)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(place)
        os.execvpe("zsh", ["zsh", "-f", "-i"], {**_environ(place), "TERM": "dumb"})
    folder = REPOSITORY / "completions"
    os.write(terminal, f"fpath=({folder} $fpath); autoload -Uz compinit; LISTMAX=0\n".encode())
    os.write(terminal, b"compinit -u -D; PS1=; echo READ''Y\n")
    _read_until(terminal, "READY")
    yield terminal
    os.close(terminal)
    os.waitpid(child, 0)


@TYPED
def test_zsh_offers(zsh: int, typed: str, offered: str) -> None:
    os.write(zsh, f"{typed}\t".encode())
    try:
        _read_until(zsh, offered)
    finally:
        os.write(zsh, b"\x15")  # clear the line; an interrupt would swallow what is typed next


def _read_until(terminal: int, wanted: str) -> None:
    """Read what a terminal shows until it shows ``wanted``; fail if it does not in time."""
    shown, end = "", time.monotonic() + 20
    while wanted not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        assert ready, f"{wanted!r} did not appear in {shown!r}"
        shown += os.read(terminal, 65536).decode("utf-8", "replace")


def test_complete_is_silent_where_there_is_no_table(cli: RunCli, tmp_path: Path) -> None:
    ran = cli("complete", "columns", str(tmp_path / "nowhere"))
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_known_properties_hold_all_that_are_read_and_that_people_set() -> None:
    read = set(re.findall(r'"(delta\.[\w.]+)"', Path(properties.__file__ or "").read_text("utf-8")))
    own = {
        "delta.inCommitTimestampEnablementVersion",
        "delta.requireCheckpointProtectionBeforeVersion",
        "delta.rowTrackingSuspended",
        "delta.universalFormat.enabledFormats",
        *properties.ROW_TRACKING_COLUMN_KEYS,
    }
    assert read - own <= set(RULES)
    assert list(RULES) == sorted(RULES)


@pytest.mark.parametrize("shell", list(Shell))
def test_installing_twice_changes_nothing_more(tmp_path: Path, shell: Shell) -> None:
    environ = {"HOME": str(tmp_path), "SHELL": f"/usr/bin/{shell}"}
    found = find_place(shell, environ)
    if found.rc_file is not None:
        found.rc_file.write_text("# mine")
    states = []
    for _ in range(2):
        assert install_completion(environ)[-1] == f"start a new {shell} to use it"
        states.append({str(p): p.read_text() for p in tmp_path.rglob("*") if p.is_file()})
    assert states[0] == states[1]
    assert found.script.read_text() == find_script(shell).read_text()
    if found.rc_file is not None:
        assert found.rc_file.read_text() == f"# mine\n{found.rc_line}\n"


def test_what_is_refused_is_not_installed(tmp_path: Path) -> None:
    shown: list[str] = []

    def refuse(changes: Sequence[str]) -> bool:
        shown.extend(changes)
        return False

    environ = {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    found = find_place(Shell.BASH, environ)
    assert install_completion(environ, refuse) == ["nothing was changed"]
    assert shown == [f"script: {found.script}", f"line in {found.rc_file}: {found.rc_line}"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shell", list(Shell))
def test_the_script_is_shown(cli: RunCli, monkeypatch: pytest.MonkeyPatch, shell: Shell) -> None:
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert cli("--show-completion").out == find_script(shell).read_text()


def test_a_wheel_installs_its_scripts(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels)]
    if subprocess.run([*build, str(REPOSITORY)], capture_output=True, check=False).returncode:
        pytest.skip("no package index that has hatchling, which builds the wheel")
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as content:
        content.extractall(tmp_path / "installed")
        names = [name.rpartition("/")[2] for name in content.namelist()]
    assert [names.count(name) for name in COMPLETION_FILES.values()] == [1, 1, 1]
    environ = {
        "PYTHONPATH": str(tmp_path / "installed"),
        "HOME": str(tmp_path),
        "SHELL": "/bin/bash",
    }
    install = [sys.executable, "-m", "deltactl", "--install-completion"]
    done = subprocess.run(install, env=environ, capture_output=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    found = find_place(Shell.BASH, environ).script
    assert found.read_bytes() == (REPOSITORY / "completions" / "deltactl.bash").read_bytes()


def test_an_unknown_shell_is_refused() -> None:
    with pytest.raises(UsageError, match="no completion for the shell 'tcsh'"):
        detect_shell({"SHELL": "/bin/tcsh"})


# How a new shell tells that it knows the completion, and what it then says.
LOADED = {
    Shell.BASH: (["bash", "-i", "-c", "complete -p deltactl"], "complete -F _deltactl deltactl\n"),
    Shell.ZSH: (["zsh", "-i", "-c", "print $_comps[deltactl]"], "_deltactl\n"),
    Shell.FISH: (["fish", "-c", "complete -C 'deltactl optimiz'"], "optimize\t"),
}


@pytest.mark.parametrize("shell", list(Shell))
def test_a_new_shell_loads_what_was_installed(place: Path, tmp_path: Path, shell: Shell) -> None:
    _require(shell)
    environ = {**_environ(place), "HOME": str(tmp_path), "SHELL": f"/bin/{shell}"}
    environ |= {"XDG_DATA_HOME": "", "XDG_CONFIG_HOME": "", "ZDOTDIR": str(tmp_path)}
    done = _run(["deltactl", "--install-completion"], environ)
    assert (done.returncode, done.stderr) == (0, "")
    command, wanted = LOADED[shell]
    assert _run(command, environ).stdout.startswith(wanted)
