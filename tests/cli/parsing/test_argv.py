"""Printed commands can be pasted into the shell that printed them."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from deltactl.cli.parsing.argv import real_command


@pytest.mark.parametrize(
    ("word", "typed"),
    [
        ("day = '2024-01-31'", "\"day = '2024-01-31'\""),
        ("a b", "'a b'"),
        ("lake/*", "'lake/*'"),
        ("s3://lake/events", "s3://lake/events"),
        ("`c d` = 'x'", "\"\\`c d\\` = 'x'\""),
        ("a = 'x' AND b = \"y\"", None),
        ("price = '$5'", None),
        ("\\ = '\\\\'", None),
        ("\\ = '!'", None),
    ],
)
def test_words_are_quoted_as_people_quote_them(word: str, typed: str | None) -> None:
    printed = real_command(["optimize", "t", "--where", word, "--dry-run"])
    shell = ["bash", "-c", f"printf '%s\\n' {printed}"]
    said = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["deltactl", "optimize", "t", "--where", word]
    if typed is not None:
        assert printed == f"deltactl optimize t --where {typed}"


@pytest.mark.parametrize("flag", ["--where", "--erased"])
def test_a_predicate_is_not_masked(flag: str) -> None:
    predicate = "url = 'https://h/p?key=5'"
    for words in ([flag, predicate], [f"{flag}={predicate}"]):
        printed = shlex.split(real_command(["optimize", "https://h/p?key=5", *words]))
        assert printed == ["deltactl", "optimize", "https://h/p?...", *words]


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (["restore", "t", "--to-timestamp", "8s"], "restore t --to-version 11"),
        (["restore", "--to-timestamp=8s", "t"], "restore --to-version=11 t"),
        (["clone", "t", "u", "--deep", "--timestamp", "8s"], "clone t u --deep --version 11"),
        (["clone", "t", "u", "--deep"], "clone t u --deep"),
    ],
)
def test_a_time_becomes_the_version_that_was_planned(words: list[str], printed: str) -> None:
    """``8s`` is another time when the command is run."""
    assert real_command([*words, "--dry-run"], 11) == f"deltactl {printed}"


def test_a_program_that_is_not_on_the_path_is_printed_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "my tools" / "deltactl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert real_command(["check", "t"]) == f"'{program}' check t"
    monkeypatch.setenv("PATH", str(program.parent))
    assert real_command(["check", "t"]) == "deltactl check t"
