"""`deltactl register` from the shell: outputs and exit statuses. The catalogs have other tests."""

from pathlib import Path

import pytest

from tests.cli.conftest import RunCli
from tests.cli.fleet.test_run import make_table
from tests.support.unity_stub import UnityStub

NAME = "uc://main.sales.t"


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_table(tmp_path / "t")


def test_a_table_is_registered_once(cli: RunCli, unity: UnityStub, tmp_path: Path) -> None:
    ran = cli("register", "t", NAME, "--dry-run")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{NAME} would be created in Unity Catalog")
    assert f"\n  location  file://{tmp_path}/t\n" in ran.out
    assert ran.out.endswith(f"To do it:\n  deltactl register t {NAME}\n")
    assert cli("register", "t", NAME, "--check").code == 3
    assert not [it for it in unity.requests if not it.startswith("GET ")]
    ran = cli("register", "t", NAME, "-o", "json")
    assert (ran.code, ran.document["status"]) == (0, "done"), ran.err
    ran = cli("register", "t", NAME)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{NAME} is up to date in Unity Catalog")
    assert cli("register", "t", NAME, "--check").code == 0


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("t", "main.sales.t"), 2, "uc://"),
        (("none", NAME), 1, "no Delta table at"),
        (("t", "uc://main.sales.*"), 2, "uc://main.sales.*"),
    ],
)
def test_what_is_refused(
    cli: RunCli, unity: UnityStub, words: tuple[str, ...], code: int, says: str
) -> None:
    ran = cli("register", *words)
    assert ran.code == code
    assert says in ran.err + ran.out
    assert not [it for it in unity.requests if not it.startswith("GET ")]


def test_a_schema_that_is_missing_is_named(cli: RunCli, unity: UnityStub) -> None:
    unity.gone.add("main.sales")
    for words in (["--dry-run"], ["--check"], []):
        ran = cli("register", "t", NAME, *words)
        assert ran.code == 8
        assert "has no database 'main.sales'" in ran.err
        assert "create the database" in ran.err


def test_the_printed_command_has_the_option_that_it_needs(cli: RunCli, unity: UnityStub) -> None:
    unity.add("main.sales.t", "s3://lake/other")
    ran = cli("register", "t", NAME, "--check")
    assert ran.out.endswith(f"To do it:\n  deltactl register t {NAME} --replace\n")
