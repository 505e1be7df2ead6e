"""What messages name: the code, the option as it was given, and commands with the table."""

import io
import re
from pathlib import Path

import pytest

from deltactl.cli.output.envelope import Envelope
from deltactl.cli.output.output import Output
from deltactl.errors import NotATableError
from tests.cli.conftest import RunCli
from tests.cli.fleet.test_run import make_table
from tests.support.table_builder import commit_path


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_table(tmp_path / "my t")
    return tmp_path / "my t"


@pytest.mark.parametrize(
    ("words", "environ", "policy", "says"),
    [
        ("optimize no -q", {}, "", "note: See `deltactl explain NOT_A_TABLE`."),
        ("optimize no no2 -q", {}, "", "note: no2: See `deltactl explain NOT_A_TABLE`."),
        ("maintain TABLE", {"DELTACTL_RETAIN": "1h"}, "", "hint: Omit DELTACTL_RETAIN. "),
        ("maintain TABLE --policy p.toml", {}, 'retain = "1h"', "maintain.retain 1h is less"),
        ("vacuum TABLE --retain 1h", {}, "", "hint: Omit --retain. "),
        ("optimize TABLE", {"DELTACTL_TARGET_SIZE": "0B"}, "", "DELTACTL_TARGET_SIZE must be more"),
        ("check s3://b/t?sig=x", {}, "", "Give credentials with --storage-option."),
    ],
)
def test_the_code_and_the_option_as_it_was_given(
    table: Path,
    cli: RunCli,
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    environ: dict[str, str],
    policy: str,
    says: str,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    if policy:
        Path("p.toml").write_text(f"[maintain]\n{policy}\n")
    ran = cli(*(str(table) if word == "TABLE" else word for word in words.split()))
    assert ran.code != 0
    assert says in " ".join(ran.err.split())


@pytest.mark.parametrize("others", [[], ["other"]])
def test_commands_in_messages_name_the_table(table: Path, cli: RunCli, others: list[str]) -> None:
    for name in others:
        make_table(Path(name))
    log = table / commit_path(1)
    log.write_text(re.sub(r'"size": ?\d+,', "", log.read_text()))
    ran = cli("optimize", str(table), *others)
    assert f"`deltactl check '{table}'`" in " ".join(ran.err.split())
    ran = cli("optimize", str(table), *others, "-o", "json")
    assert f"`deltactl check '{table}'`" in ran.out


def test_a_hint_has_no_other_word_replaced() -> None:
    output = Output(environ={}, stdout=io.StringIO(), stderr=io.StringIO())
    hint = "Copy TABLE, or run `deltactl check TABLE` or `ls TABLE`."
    error = NotATableError("x", hint=hint)
    output.emit_error(Envelope("check", "$a"), error)
    assert error.hint == "Copy TABLE, or run `deltactl check '$a'` or `ls TABLE`."
