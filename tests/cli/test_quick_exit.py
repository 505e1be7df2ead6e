"""How a process of the program ends, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_START = """
import atexit, os, sys
from deltactl import __main__
from deltactl.__main__ import end_quickly
set_exit_code = __main__._exit_codes.append
class Kept:
    def __del__(self):
        os.write(1, b"torn down\\n")
kept = Kept()
"""


def run(program: str) -> tuple[int, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", _START + program],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    return done.returncode, done.stdout.splitlines()


def test_later_exit_functions_run_and_output_is_complete() -> None:
    code, lines = run("""
end_quickly()
atexit.register(print, "second")
atexit.register(print, "first")
print("x" * 100_000)
set_exit_code(5)
sys.exit(5)
""")
    assert (code, lines[1:]) == (5, ["first", "second"])
    assert len(lines[0]) == 100_000


def test_threads_end_first() -> None:
    code, lines = run("""
import threading, time
end_quickly()
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
set_exit_code(0)
sys.exit(0)
""")
    assert (code, lines) == (0, ["thread"])


def test_earlier_exit_functions_run() -> None:
    code, lines = run("""
atexit.register(print, "earlier")
end_quickly()
set_exit_code(3)
sys.exit(3)
""")
    assert (code, lines) == (3, ["earlier", "torn down"])


@pytest.mark.parametrize(("end", "code"), [("sys.exit(4)", 4), ("raise SystemExit", 0)])
def test_other_ends_do_not_change(end: str, code: int) -> None:
    assert run(f"end_quickly()\n{end}") == (code, ["torn down"])


def test_output_that_cannot_be_written_is_reported_as_before() -> None:
    code, lines = run("""
end_quickly()
print("lost")
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
set_exit_code(0)
sys.exit(0)
""")
    assert (code, lines) == (120, [])
