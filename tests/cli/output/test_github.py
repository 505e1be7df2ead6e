"""``-o github`` and ``-o junit``: what a CI server reads, whatever tables are named."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from deltactl.cli.output.github import annotate
from tests.cli.conftest import RunCli
from tests.cli.fleet.test_run import make_table

TABLES = ("x/fine", "x/warn", "x/needed", "x/raise-ConflictError")


def test_github_annotates_warnings_errors_and_results(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", *TABLES, "-o", "github")
    assert ran.code == 4
    assert ran.out.splitlines() == [
        "::notice title=deltactl go-round::x/fine: fine is [good]",
        "::notice title=deltactl go-round::x/warn: warn is [good]",
        "::warning title=deltactl go-round::x/warn: odd",
        "::error title=deltactl go-round%3A WORK_NEEDED::x/needed: needed is [good]",
        "::error title=deltactl go-round%3A CONFLICT::x/raise-ConflictError: "
        "raise-ConflictError broke",
    ]


def test_a_text_cannot_begin_a_command_of_its_own() -> None:
    line = annotate("error", "a:b,c%\n", "50%\n::set-env name=x::y\r\x1b[31m")
    assert "\n" not in line
    assert "\r" not in line
    assert line == ("::error title=a%3Ab%2Cc%25\\n::50%25\\n::set-env name=x::y\\r\\x1b[31m")


def test_junit_has_one_case_for_each_table(fake_cli: RunCli) -> None:
    ran = fake_cli("go-round", *TABLES, "x/<&\"'>", "-o", "junit")
    root = ElementTree.fromstring(ran.out)  # noqa: S314 our own text
    [suite] = root
    assert (root.tag, suite.tag) == ("testsuites", "testsuite")
    assert suite.get("name") == "deltactl go-round"
    counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
    assert counts == ["5", "1", "1", "0"]
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == [*TABLES, "x/<&\"'>"]
    inside = [[(part.tag, part.get("type")) for part in case] for case in cases.values()]
    assert inside == [
        [],
        [("system-err", None)],
        [("failure", "WORK_NEEDED")],
        [("error", "CONFLICT")],
        [],
    ]
    assert all(float(case.get("time") or "x") >= 0 for case in suite)


def test_junit_has_the_findings(cli: RunCli, tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    for path in (tmp_path / "t").glob("*.parquet"):
        path.unlink()
    failure = ElementTree.fromstring(cli("check", str(tmp_path / "t"), "-o", "junit").out)[0][0][0]  # noqa: S314
    assert failure.get("type") == "FILE_MISSING"
    assert (failure.text or "").count("problem: it is not in the store") == 3


def test_one_table_has_the_same_forms(cli: RunCli, tmp_path: Path) -> None:
    make_table(tmp_path / "t")
    table = str(tmp_path / "t")
    ran = cli("optimize", table, "--check", "-o", "github")
    assert ran.code == 3
    assert ran.out.startswith(
        f"::error title=deltactl optimize%3A WORK_NEEDED::{table}: Would rewrite 3 files"
    )
    assert cli("optimize", table).code == 0
    assert cli("optimize", table, "--check", "-o", "github").out.startswith("::notice ")
    skipped = cli("optimize", table, "--min-interval", "1h", "-o", "junit")
    root = ElementTree.fromstring(skipped.out)  # noqa: S314 our own text
    assert [part.tag for part in root.iter()][-1] == "skipped"


def test_what_fails_before_any_table_is_an_annotation_too(cli: RunCli, tmp_path: Path) -> None:
    ran = cli("optimize", "--tables-from", f"{tmp_path}/none", "-o", "github")
    assert ran.code == 2
    assert ran.out.startswith("::error title=deltactl%3A USAGE::--tables-from ")


@pytest.mark.parametrize("words", [["--tables-from", "absent"], ["--no-such-option"], ["t*"]])
def test_a_run_without_tables_is_a_valid_report(cli: RunCli, words: list[str]) -> None:
    ran = cli("optimize", *words, "-o", "junit")
    root = ElementTree.fromstring(ran.out)  # noqa: S314 our own text
    errors = [part.attrib["type"] for part in root.iter("error")]
    assert errors == ["NOT_A_TABLE" if ran.code == 1 else "USAGE"]
    for form in ("ndjson", "csv"):
        ran = cli("optimize", "t*", "-o", form)
        assert (ran.code, "NOT_A_TABLE" in ran.out) == (1, True)


@pytest.mark.parametrize("form", ["github", "junit"])
def test_other_commands_have_no_such_form(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    ran = cli("describe-history", str(tmp_path), "-o", form)
    assert (ran.code, f"{form!r} is not possible" in ran.err) == (2, True)
    monkeypatch.setenv("DELTACTL_OUTPUT", form)
    ran = cli("describe-history", str(tmp_path))
    assert ran.code == 2
    assert f"describe-history does not support -o {form}" in ran.err
    assert form not in cli("describe-history", "--help").out
    assert form in cli("optimize", "--help").out
