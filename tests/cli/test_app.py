import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltactl
from deltactl import errors
from deltactl.cli.command_table import COMMANDS
from deltactl.cli.exits import MEANINGS, ExitCode
from deltactl.cli.failures import explain_failure
from deltactl.cli.signals import Terminated
from tests.cli.conftest import RunCli

HEAVY = ("pyarrow", "fsspec", "s3fs", "pyspark", "sqlglot", "numpy", "pandas", "rich")
FAKE_MAIN = (
    "import signal, sys; from deltactl.cli.app import run; from tests.cli.conftest import FAKES; "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "sys.exit(run(sys.argv[1:], specs=FAKES))"
)


def test_options_of_commands_are_declared_without_arrow(process: RunCli) -> None:
    modules = ", ".join(spec.module for spec in COMMANDS)
    heavy = set(HEAVY) - {"rich"}
    ran = process("-c", f"import sys, {modules}; print(*({heavy} & sys.modules.keys()))")
    assert (ran.code, ran.out, ran.err) == (0, "\n", "")


def test_options_are_read_without_pydantic(process: RunCli) -> None:
    code = "from deltactl.cli.app import run; run(['-q', 'explain', 'LOG_GAP'])"
    ran = process("-c", f"{code}; import sys; print(*sys.modules)")
    assert {"typer", "pydantic"} & set(ran.out.splitlines()[-1].split()) == {"typer"}


def test_help_imports_little_but_typer(process: RunCli) -> None:
    def loaded(code: str) -> set[str]:
        ran = process("-c", f"{code}; import sys; print(chr(10), *sys.modules)")
        return set(ran.out.splitlines()[-1].split())

    typer = loaded("import typer")
    ours = loaded("from deltactl.cli.app import run; run(['--help'])")
    packages = {name.partition(".")[0] for name in ours - typer}
    assert "deltactl" in packages
    assert packages & {*HEAVY, "pydantic", "asyncio"} == set()
    # Packages are empty files.
    empty = {name.rpartition(".")[0] for name in ours if name.startswith("deltactl.")}
    assert len(ours - empty) <= 1.5 * len(typer)


def test_help_lists_every_command_and_exit_status(process: RunCli) -> None:
    ran = process("-m", "deltactl", "--help-all")
    assert ran.err == ""
    for spec in COMMANDS:
        assert (f"  {spec.name} " in ran.out) is not spec.is_hidden
        assert (spec.help in ran.out) is not spec.is_hidden
    for code, meaning in MEANINGS.items():
        assert f" {code.value}  {meaning}\n" in ran.out


def test_version_prints_the_version(cli: RunCli) -> None:
    assert cli("--version").out == f"deltactl {deltactl.__version__}\n"


def test_without_arguments_help_goes_to_stderr(cli: RunCli) -> None:
    ran = cli()
    assert (ran.code, ran.out) == (2, "")
    assert "Commands:" in ran.err


def test_help_of_a_command(fake_cli: RunCli) -> None:
    ran = fake_cli("show-facts", "--help-all")
    assert (ran.code, ran.err) == (0, "")
    assert "A second paragraph of help." in ran.out
    for text in ("TABLE", "--dry-run", "--storage-option KEY=VALUE", "--debug", "Exit status:"):
        assert text in ran.out


def test_a_result_for_people(fake_cli: RunCli) -> None:
    ran = fake_cli("show-facts", "/data/[red]x", "--storage-option", "a=1=2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "table  /data/[red]x\nkey  value\na    1=2\n"


@pytest.mark.parametrize(
    "args",
    [
        ("-o", "json", "show-facts", "t", "--storage-option", "k=v"),
        ("--storage-option", "k=v", "show-facts", "-o", "json", "t"),
        ("-o", "csv", "--storage-option", "k=u", "show-facts", "t", "--output=json")
        + ("--storage-option", "k=v"),
    ],
)
def test_global_options_stand_before_or_after_the_command(
    fake_cli: RunCli, args: tuple[str, ...]
) -> None:
    ran = fake_cli(*args)
    assert (ran.document["command"], ran.document["table"]) == ("show-facts", "t")
    assert ran.result == [{"key": "k", "value": "v"}]


def test_output_comes_from_the_environment(
    fake_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTACTL_OUTPUT", "ndjson")
    assert fake_cli("show-facts", "t", "--storage-option", "k=v").out == (
        '{"key": "k", "value": "v"}\n'
    )
    monkeypatch.setenv("DELTACTL_OUTPUT", "yaml")
    ran = fake_cli("show-facts", "t")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "error: DELTACTL_OUTPUT: 'yaml' is not possible\n"
        "hint: Use one of: table, json, ndjson, csv, github, junit.\n"
    )


def test_warnings_go_to_stderr_and_into_the_envelope(fake_cli: RunCli) -> None:
    ran = fake_cli(
        "show-facts", "t", "-o", "json", "--warn", "odd\x1b[31m", "--warn", "odd\x1b[31m"
    )
    assert ran.document["warnings"] == ["odd\x1b[31m"]
    assert ran.err == "warning: odd\\x1b[31m\n"


def test_verbose_shows_what_the_library_logs(fake_cli: RunCli) -> None:
    assert fake_cli("show-facts", "t").err == ""
    assert fake_cli("show-facts", "t", "-v").err == "note: deltactl.fake: looked closely\n"
    assert fake_cli("show-facts", "t", "-vq").err == ""


def test_a_command_chooses_its_exit_status(fake_cli: RunCli) -> None:
    assert fake_cli("show-facts", "t", "--check").code == ExitCode.WORK_NEEDED


ERRORS = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.DeltactlError)
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
def test_every_error_has_its_status_and_no_traceback(
    fake_cli: RunCli, error: type[errors.DeltactlError]
) -> None:
    ran = fake_cli("go-wrong", "t", "--raises", error.__name__, "--hint", "turn it")
    assert ran.code == error.exit_code
    assert ran.code in MEANINGS
    is_explained = error.code not in ("USAGE", "INTERRUPTED")
    note = f"note: See `deltactl explain {error.code}`.\n" if is_explained else ""
    assert (ran.out, ran.err) == ("", f"error: it broke\nhint: turn it\n{note}")


def test_an_error_in_json_is_the_envelope(fake_cli: RunCli) -> None:
    ran = fake_cli("go-wrong", "t", "--raises", "ConflictError", "-o", "json")
    envelope = ran.document
    assert (ran.code, envelope["command"], envelope["table"]) == (4, "go-wrong", "t")
    assert envelope["error"] == {"code": "CONFLICT", "message": "it broke", "hint": None}
    assert ran.err.startswith("error: it broke\n")


def test_an_error_after_the_result_adds_no_second_envelope(fake_cli: RunCli) -> None:
    ran = fake_cli("go-wrong", "t", "--raises", "PartialSuccessError", "-ojson", "--after-result")
    assert (ran.code, ran.result) == (5, {"part": 1})


def test_text_of_an_error_cannot_act_on_the_terminal(fake_cli: RunCli) -> None:
    ran = fake_cli("go-wrong", "t", "--raises", "TableError", "--message", "a\x1b[2J\n[red]b")
    assert ran.err.startswith("error: a\\x1b[2J\\n[red]b\n")


def test_a_traceback_comes_with_debug_only(fake_cli: RunCli) -> None:
    ran = fake_cli("go-wrong", "t", "--raises", "TableError", "--debug")
    assert ran.code == 1
    assert "Traceback (most recent call last):" in ran.err
    assert "deltactl.errors.TableError: it broke" in ran.err


def test_an_unexpected_exception_is_called_a_bug(fake_cli: RunCli) -> None:
    ran = fake_cli("go-wrong", "t")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        "error: this is a bug in deltactl: ZeroDivisionError: it broke\n"
        "hint: Rerun with --debug, and report the output.\n"
        "note: See `deltactl explain INTERNAL`.\n"
    )
    assert "go_wrong.py" in fake_cli("--debug", "go-wrong", "t").err


@pytest.mark.parametrize(
    ("cause", "error", "said"),
    [
        (KeyboardInterrupt(), RuntimeError("Error calling __set_name__"), "interrupted"),
        (Terminated(), ImportError("initialization failed"), "terminated"),
        (ValueError(), ImportError("undefined symbol"), "cannot be loaded: undefined symbol"),
    ],
)
def test_an_import_that_fails_is_no_bug(cause: BaseException, error: Exception, said: str) -> None:
    error.__cause__ = cause
    assert said in explain_failure(error).message


@pytest.mark.parametrize(
    ("args", "message", "hint"),
    [
        (["show-fact", "t"], "No such command 'show-fact'. Did you mean 'show-facts'?", "deltactl"),
        (["show-facts"], "Missing argument 'TABLE'", "deltactl show-facts"),
        (["show-facts", "t", "--nope"], "No such option: --nope", "deltactl show-facts"),
    ],
)
def test_wrong_usage_exits_2_and_refers_to_help(
    fake_cli: RunCli, args: list[str], message: str, hint: str
) -> None:
    ran = fake_cli(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == f"error: {message}\nhint: See `{hint} --help`.\n"
    in_json = fake_cli(*args, "-o", "json")
    assert (in_json.code, in_json.document["error"]["code"]) == (2, "USAGE")
    logged = json.loads(fake_cli(*args, "--log-format", "json").err)
    assert (logged["command"], logged["table"]) == (None, None)


def test_a_storage_option_without_value_is_not_repeated(fake_cli: RunCli) -> None:
    ran = fake_cli("show-facts", "t", "--storage-option", "hunter2")
    assert ran.code == 2
    assert "hunter2" not in ran.err


def test_a_command_that_is_not_there_yet(fake_cli: RunCli) -> None:
    assert "not-written-yet" in fake_cli("--help").out
    ran = fake_cli("not-written-yet", "t")
    assert ran.code == 2
    assert ran.err.startswith(
        "error: this version of deltactl does not have the command `not-written-yet`\n"
    )


def open_python(*args: str) -> tuple[subprocess.Popen[str], IO[str], IO[str]]:
    """A process of its own, with pipes for its output and its errors."""
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, *args], stdout=pipe, stderr=pipe, text=True)
    assert child.stdout is not None
    assert child.stderr is not None
    return child, child.stdout, child.stderr


def start(*args: str) -> subprocess.Popen[str]:
    child, out, _ = open_python("-u", "-c", FAKE_MAIN, *args)
    assert out.readline() == "ready\n"
    return child


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGHUP, 143, "terminated"),
    ],
)
def test_signals_end_a_command(number: int, code: int, word: str) -> None:
    child = start("wait-here")
    child.send_signal(number)
    _, err = child.communicate(timeout=120)
    assert (child.returncode, err) == (code, f"error: {word}\n")


@pytest.mark.parametrize(
    ("name", "code", "word"),
    [("SIGINT", 130, "interrupted"), ("SIGTERM", 143, "terminated"), ("SIGHUP", 143, "terminated")],
)
def test_a_signal_while_the_program_is_imported(
    process: RunCli, name: str, code: int, word: str
) -> None:
    program = (
        "import os, signal, sys; sys.modules.pop('typer', None)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "class Finder:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        f"            os.kill(os.getpid(), signal.{name})\n"
        "sys.meta_path.insert(0, Finder)\n"
        "from deltactl.__main__ import main\n"
        "main()"
    )
    ran = process("-c", program, "--version")
    assert (ran.code, ran.out, ran.err) == (code, "", f"error: {word}\n")


def test_reads_of_arrow_that_are_not_finished_do_not_change_the_exit(process: RunCli) -> None:
    """They need the interpreter; without an answer the process would be killed after a minute."""
    program = (
        "import fsspec, pyarrow as pa, time\n"
        "from fsspec.implementations.memory import MemoryFile\n"
        "from pyarrow import dataset, fs, parquet\n"
        "memory = fsspec.filesystem('memory')\n"
        "names = [f'/{number}' for number in range(8)]\n"
        "for name in names:\n"
        "    with memory.open(name, 'wb') as file:\n"
        "        parquet.write_table(pa.table({'x': range(100_000)}), file, row_group_size=2_000)\n"
        "read, wait = MemoryFile.read, [0]\n"
        "MemoryFile.read = lambda *args: (time.sleep(*wait), read(*args))[1]\n"
        "files = fs.PyFileSystem(fs.FSSpecHandler(memory))\n"
        "batches = dataset.dataset(names, filesystem=files).to_batches(batch_size=500)\n"
        "next(batches)\n"
        "wait[0] = 3\n"
        "from deltactl.__main__ import main\n"
        "main()"
    )
    ran = process("-c", program, "describe-detail", "nothing")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("error: no Delta table")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_cancel_an_orderly_command(number: int, code: int) -> None:
    child = start("wait-here", "--orderly", "-q")
    child.send_signal(number)
    _, err = child.communicate(timeout=120)
    assert (child.returncode, err) == (code, "error: stopped in good order\n")


def test_a_signal_in_a_call_of_the_token_does_not_block(process: RunCli) -> None:
    """As in ``wait``, the main thread has the lock of the token when the signal arrives."""
    program = (
        "import signal\n"
        "from deltactl.cli.signals import cancel_on_signals\n"
        "with cancel_on_signals() as cancellation:\n"
        "    with cancellation.token._cond:\n"
        "        signal.raise_signal(signal.SIGTERM)\n"
        "    print(cancellation.token.wait(30))\n"
    )
    ran = process("-c", program)
    assert (ran.code, ran.out) == (0, "True\n")


def test_a_second_signal_aborts_at_once() -> None:
    child = start("wait-here", "--orderly", "--deaf")
    child.send_signal(signal.SIGTERM)
    assert child.stdout
    assert child.stdout.readline() == "deaf\n"
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 130
    assert err.startswith("note: stopping;")


def test_a_reader_that_goes_away_is_no_error() -> None:
    child, out, errors = open_python("-m", "deltactl", "--help")
    out.close()
    with errors:
        err = errors.read()
    assert (child.wait(timeout=20), err) == (ExitCode.BROKEN_PIPE, "")


_DELTACTL = [sys.executable, "-m", "deltactl"]


@pytest.mark.parametrize(
    "words",
    [
        *("--version", "alter --help", "--show-completion", "explain", "check /no/a /no/b -o json"),
        "check /no/a /no/b -o ndjson",
    ],
)
def test_a_result_that_cannot_be_written(words: str) -> None:
    environ = {**os.environ, "SHELL": "/bin/bash", "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*_DELTACTL, *words.split()],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=environ,
        )
    assert "error: cannot write the result: " in done.stderr
    assert ("/no/b: " in done.stderr) == words.startswith("check")  # the others are done
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("form", ["github", "junit"])
def test_a_result_of_one_table_that_cannot_be_written(form: str) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*_DELTACTL, "check", "/no/a", "-o", form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert "error: cannot write the result: " in done.stderr
    assert "other tables" not in done.stderr
    assert "describe-history /no/a" in done.stderr.replace("\n", " ")


def test_a_result_of_which_a_part_cannot_be_written(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 1; "$@" >part', "-", *_DELTACTL, "vacuum", "--help-all"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        check=False,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert (tmp_path / "part").stat().st_size == 1024
    assert done.stderr.startswith(b"error: cannot write the result: ")
    assert done.returncode == 1


def test_a_log_that_cannot_be_written() -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [*_DELTACTL, "alter", "--nope"],
            stderr=full,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert done.returncode == 2


def test_closed_streams_are_survived() -> None:
    done = subprocess.run(
        ["bash", "-c", '"$0" -m deltactl --version >&- 2>&-', sys.executable], check=False
    )
    assert done.returncode == 0


LOCALE_IS_ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""The environment of a process that reads names of files as ASCII, on any machine."""


def test_a_locale_that_is_not_utf_8(tmp_path: Path) -> None:
    """Names of files on the command line and in the table are UTF-8 whatever the locale."""
    table = tmp_path / "Größe"
    directory = table / "p=Straße"
    directory.mkdir(parents=True)
    for number in range(3):
        pq.write_table(pa.table({"id": [number]}), directory / f"{number}.parquet")

    def run(*words: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, *words, table],
            input=b"",
            capture_output=True,
            check=False,
            env={**os.environ, **LOCALE_IS_ASCII, **environ},
        )

    done = run("-m", "deltactl", "convert", "-q", "--partition-by", "p string")
    assert (done.returncode, done.stderr) == (0, b"")
    commit = (table / "_delta_log/00000000000000000000.json").read_text("utf-8")
    assert '"path":"p=Straße/0.parquet"' in commit
    done = run("-c", "from deltactl.__main__ import main; main()", "check", "--files", "data")
    assert done.returncode == 0
    for refused in (
        run("-X", "utf8=0", "-m", "deltactl", "check"),
        run("-c", "import sys; from deltactl import Table; Table(sys.argv[1])"),
    ):
        assert refused.returncode != 0
        assert b"reads the names of files as ascii" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", "--user-metadata", "\udcff"),
        ("alter", "--set", "a=\udcff"),
        ("describe-history", "--blame", "p=\udcff"),
    ],
)
def test_a_text_that_is_not_utf_8(cli: RunCli, words: tuple[str, ...]) -> None:
    """The log contains only UTF-8. An argument with other bytes has lone surrogates in Python."""
    ran = cli(words[0], "t", *words[1:])
    assert ran.code == 2
    assert f"{words[1]}: {words[2]!r} is not valid UTF-8" in ran.err
