"""Commands on tables by their names in a catalog."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from deltactl import Table, maintain
from deltactl.errors import UnsupportedFeatureError
from deltactl.table import TableWarning
from tests.cli.conftest import UNITY_TOKEN, RunCli, Shown
from tests.support.unity_stub import UnityStub

NAME = "uc://main.sales.orders"


def write(folder: Path) -> str:
    """A table of three small files; gives its address."""
    for number in range(3):
        rows = pa.table({"day": ["2026-01-01"], "id": [number]})
        deltalake.write_deltalake(folder, rows, mode="append", partition_by=["day"])
    return folder.as_uri()


@pytest.fixture
def orders(unity: UnityStub, tmp_path: Path) -> Path:
    unity.add("main.sales.orders", write(tmp_path / "orders"))
    return tmp_path / "orders"


def version(folder: Path) -> int:
    return deltalake.DeltaTable(folder).version()


@pytest.mark.parametrize(
    "words",
    [
        ("optimize", NAME),
        ("vacuum", NAME, "--yes"),
        ("checkpoint", NAME),
        ("check", NAME),
        ("generate-manifest", NAME),
        ("describe-detail", NAME),
        ("describe-history", NAME),
        ("restore", NAME, "--to-version", "0", "--yes"),
        ("maintain", NAME),
        ("optimize", NAME, "--dry-run"),
    ],
    ids=" ".join,
)
def test_commands_take_names(
    cli: RunCli, unity: UnityStub, orders: Path, words: tuple[str, ...]
) -> None:
    ran = cli(*words, "-o", "json")
    assert ran.code == 0, ran.err
    if words[0] != "maintain":
        assert ran.document["table"] == NAME
    # A table on this machine needs no credentials: reading and writing may be two look-ups.
    assert 1 <= len(unity.requests) <= 2
    assert set(unity.requests) == {"GET /tables/main.sales.orders"}
    changes = words[0] in ("optimize", "restore") and "--dry-run" not in words
    assert (version(orders) > 2) is changes


def test_a_clone_of_a_name(cli: RunCli, orders: Path, tmp_path: Path) -> None:
    for kind in ("--deep", "--shallow"):
        ran = cli("clone", NAME, str(tmp_path / kind), kind)
        assert ran.code == 0, ran.err
        assert version(tmp_path / kind) == 0


def test_patterns_take_one_request(cli: RunCli, unity: UnityStub, tmp_path: Path) -> None:
    for name in ("a", "b"):
        unity.add(f"main.sales.{name}", write(tmp_path / name))
    unity.add("main.sales.again", (tmp_path / "a").as_uri() + "/")
    unity.add("main.sales.view", "", table_type="VIEW", data_source_format=None)
    unity.add("main.sales.pq", "s3://lake/pq", data_source_format="PARQUET")
    ran = cli("optimize", "uc://main.sales.*", "--dry-run", "-v", "-o", "json")
    assert ran.code == 0, ran.err
    assert [run["table"] for run in ran.document["runs"]] == [
        "uc://main.sales.a", "uc://main.sales.b",
    ]  # fmt: skip
    assert "2 tables left out" in ran.err
    assert "uc://main.sales.view" in ran.err
    assert unity.requests.count("GET /tables") == 1
    assert "uc://main.sales.view" not in cli("optimize", "uc://main.sales.*", "--dry-run").err
    both = cli("optimize", "uc://main.sales.a", "uc://main.sales.b", "-o", "json")
    assert both.code == 0
    assert version(tmp_path / "a") == 3
    assert cli("optimize", "uc://main.nothing.*").code == 1
    assert cli("optimize", "uc://*.sales.a").code == 2
    assert cli("describe-history", "uc://main.sales.*").code == 2


def test_names_of_one_location_are_processed_once(
    cli: RunCli, unity: UnityStub, tmp_path: Path
) -> None:
    folder, link = tmp_path / "a table", tmp_path / "link"
    uri = write(folder)
    link.symlink_to(folder)
    spellings = [uri, f"{uri}/", uri.replace("//", "", 1), str(folder), link.as_uri()]
    for number, location in enumerate(spellings):
        unity.add(f"main.sales.t{number}", location)
    names = [f"uc://main.sales.t{number}" for number in range(len(spellings))]
    by_path = [str(link), "uc://main.sales.*"]
    for words, kept in ((names, 0), ([names[2], str(folder)], 2), (by_path, 0)):
        ran = cli("optimize", *words, "--dry-run", "-o", "json")
        assert [run["table"] for run in ran.document["runs"]] == [names[kept]]
    assert cli("maintain", "uc://main.sales.*", "--jobs", "4").code == 0
    assert "CATALOG_NAMES" in codes(cli, "uc://main.sales.*")
    gone = cli("optimize", names[0], "uc://main.sales.gone", "uc://main.sales.gone", "-o", "json")
    assert [run["exit_code"] for run in gone.document["runs"]] == [0, 1]


@pytest.mark.parametrize(
    "words",
    [("optimize",), ("vacuum", "--dry-run"), ("checkpoint",), ("restore", "--to-version", "0")],
    ids=" ".join,
)
def test_a_catalog_managed_table_is_refused(
    cli: RunCli, unity: UnityStub, orders: Path, words: tuple[str, ...]
) -> None:
    managed = {"delta.feature.catalogManaged": "supported"}
    unity.tables["main.sales.orders"]["properties"] = managed
    ran = cli(words[0], NAME, *words[1:])
    assert ran.code == 7
    assert "catalogManaged" in ran.err
    assert version(orders) == 2
    for command in ("describe-detail", "describe-history"):
        shown = cli(command, NAME)
        assert shown.code == 0
        assert "its catalog may know newer ones" in shown.err
    with pytest.raises(UnsupportedFeatureError):
        Table(NAME).snapshot()
    with pytest.warns(TableWarning, match="may know newer ones"):
        assert Table(NAME).history().num_rows == 3


def test_the_command_in_the_hint_lists_the_tables(cli: RunCli, orders: Path) -> None:
    hint = cli("describe-detail", "uc://main.sales.order").err
    found = re.search("`deltactl ([^`]*sales[^`]*)`", hint)
    assert found is not None
    ran = cli(*shlex.split(found[1]))
    assert (ran.code, NAME in ran.out) == (0, True)


def test_the_library_takes_names(unity: UnityStub, orders: Path) -> None:
    table = Table(NAME)
    assert repr(table) == f"Table({NAME!r})"
    assert unity.requests == []
    assert table.optimize().files_added == 1
    assert table.snapshot().version == 3
    assert table.uri == orders.as_uri()
    report = maintain([NAME, "uc://main.sales.gone"], dry_run=True)
    assert len(report.tables) == 1
    assert list(report.errors) == ["uc://main.sales.gone"]


def test_settings_in_a_file(
    cli: RunCli,
    settings: Callable[..., dict[str, Shown]],
    unity: UnityStub,
    orders: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "deltactl.toml"
    file.write_text(f'[catalog.uc]\nhost = "{unity.address}"\ntoken = "env:MINE"\n')
    monkeypatch.setenv("DELTACTL_CONFIG", str(file))
    monkeypatch.delenv("DATABRICKS_HOST")
    monkeypatch.delenv("DATABRICKS_TOKEN")
    monkeypatch.setenv("MINE", UNITY_TOKEN)
    assert cli("describe-detail", NAME).code == 0
    assert cli("optimize", str(orders)).code == 0
    shown = settings(NAME)
    assert shown["host"] == (unity.address, "file", f"{file}: [catalog.uc]")
    assert shown["token"] == ("***", "file", f"{file}: [catalog.uc]")
    assert shown["profile"] == ("-", "default", "")
    assert UNITY_TOKEN not in cli("config").out
    file.write_text('[catalog.uc]\nhots = "x"\n')
    ran = cli("describe-detail", NAME)
    assert ran.code == 2
    assert "Did you mean 'host'?" in ran.err
    file.write_text('[catalog]\nhost = "x"\n')
    assert cli("describe-detail", NAME).code == 2


def test_commands_on_paths_load_nothing_of_catalogs(process: RunCli, tmp_path: Path) -> None:
    write(tmp_path / "t")
    code = (
        "import sys; from deltactl.cli.app import run; run(sys.argv[1:]);"
        "print(*[m for m in sys.modules if m.startswith('deltactl.catalog')], file=sys.stderr)"
    )
    ran = process("-c", code, "optimize", str(tmp_path / "t"), "--dry-run")
    assert (ran.code, ran.err.splitlines()[-1]) == (0, "")


def test_describe_detail_shows_the_entry_of_the_catalog(
    cli: RunCli, unity: UnityStub, orders: Path
) -> None:
    shown = cli("describe-detail", NAME, "-o", "json").document
    assert shown["result"]["catalog"] == {
        "name": NAME,
        "catalog": f"Unity Catalog at {unity.address}",
        "id": "id-of-main.sales.orders",
        "type": "EXTERNAL",
        "owner": "alice",
    }
    assert "alice" in cli("describe-detail", NAME).out
    assert "catalog" not in cli("describe-detail", str(orders), "-o", "json").result


def codes(cli: RunCli, *words: str) -> list[str]:
    result = cli("check", *words, "-o", "json").document
    runs = result.get("runs", [result])
    return sorted(row["code"] for run in runs for row in run["result"]["findings"])


def test_check_compares_the_catalog_with_the_log(
    cli: RunCli, unity: UnityStub, orders: Path, tmp_path: Path
) -> None:
    entry = unity.tables["main.sales.orders"]
    columns = [{"name": "day", "type_text": "varchar(10)"}, {"name": "ID", "type_text": "bigint"}]
    entry["columns"] = columns
    assert codes(cli, NAME) == []
    entry["columns"] = [{"name": "day", "type_text": "date"}, {"name": "more", "type_text": "int"}]
    assert codes(cli, NAME) == ["CATALOG_COLUMNS"] * 3
    entry["columns"] = []
    deltalake.DeltaTable(orders).alter.set_table_properties(
        {"io.unitycatalog.tableId": "another"}, raise_if_not_exists=False
    )
    assert codes(cli, NAME) == ["CATALOG_ID"]
    unity.add("main.sales.twice", orders.as_uri())
    assert codes(cli, "uc://main.sales.*") == ["CATALOG_ID", "CATALOG_NAMES"]
    unity.add("main.sales.gone", (tmp_path / "gone").as_uri())
    assert codes(cli, "uc://main.sales.gone") == ["CATALOG_LOCATION"]
    assert cli("check", "uc://main.sales.gone").code == 3
