import json
from pathlib import Path
from typing import Any

import pytest

from deltactl.cli.pages.detail import describe_skipping
from deltactl.clock import SystemClock
from deltactl.operations.skipping.report import ColumnSkipping, LayoutReport
from tests.cli.conftest import RunCli
from tests.support.history_logs import START_MS, add, info, metadata, write_commit


@pytest.fixture(autouse=True)
def two_hours_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: START_MS + 7_200_000)


def protocol(*features: str) -> dict[str, Any]:
    """Features of writers, if any."""
    listed = {"minWriterVersion": 7, "writerFeatures": [*features]}
    written = listed if features else {"minWriterVersion": 2}
    return {"protocol": {"minReaderVersion": 1, **written}}


@pytest.fixture
def table(tmp_path: Path) -> str:
    root = tmp_path / "a table"
    action = metadata("p", user_key="v\x1b[1m", user_none="")["metaData"] | {"description": "c"}
    features = protocol("appendOnly", "novelFeature")
    write_commit(root, 0, info("CREATE TABLE"), features, {"metaData": action})
    write_commit(root, 1, info(), add("f1", 2048))
    return str(root)


def test_the_page_shows_each_fact_on_a_line(cli: RunCli, table: str) -> None:
    ran = cli("describe-detail", table)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"location        file:{table.replace(' ', '%20')}\n"
        "version         1, committed 2023-11-14T22:13:21.000Z (1 h ago)\n"
        "size            1 file, 2 KiB\n"
        "id              table-id\n"
        "description     c\n"
        "created         2023-11-14T22:13:20.000Z (2 h ago)\n"
        "last modified   2023-11-14T22:13:21.000Z (1 h ago)\n"
        "partitioned by  p\n"
        "protocol        reader 1, writer 7\n"
        "\n"
        "Files by size\n"
        "  size of a file  files   size\n"
        "  < 64 KiB            1  2 KiB  ########################################\n"
        "  small: 1 of 1 file (100%), 2 KiB; small is below 192 MiB\n"
        "\n"
        "Columns (2)\n"
        "  column  type\n"
        "  id      long\n"
        "  p       string  partition\n"
        "\n"
        "Properties\n"
        "  user.key   v\\x1b[1m\n"
        "  user.none  (empty)\n"
        "\n"
        "features                  appendOnly, novelFeature\n"
        "deltactl can read it      yes\n"
        "deltactl can optimize it  no: cannot rewrite files of this table: unsupported\n"
        "                          table feature: novelFeature\n"
    )


def test_json_has_the_members_of_describe_detail_on_spark(cli: RunCli, table: str) -> None:
    envelope = cli("describe-detail", table, "-o", "json").document
    assert envelope["version_after"] == 1
    assert envelope["result"] == {
        "format": "delta",
        "id": "table-id",
        "name": None,
        "description": "c",
        "location": f"file:{table.replace(' ', '%20')}",
        "createdAt": "2023-11-14T22:13:20.000Z",
        "lastModified": "2023-11-14T22:13:21.000Z",
        "partitionColumns": ["p"],
        "clusteringColumns": [],
        "numFiles": 1,
        "sizeInBytes": 2048,
        "properties": {"user.key": "v\x1b[1m", "user.none": ""},
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "tableFeatures": ["appendOnly", "novelFeature"],
        "fileSizes": {
            "histogram": [{"from_bytes": 0, "to_bytes": 65536, "files": 1, "bytes": 2048}],
            "small_below_bytes": 192 << 20,
            "small_files": 1,
            "small_bytes": 2048,
            "small_file_share": 1.0,
        },
    }
    assert cli("describe-detail", table, "-o", "ndjson").document == envelope["result"]


def test_an_older_version_is_named_by_number_or_time(cli: RunCli, table: str) -> None:
    def num_files(*args: str) -> int:
        return int(cli("describe-detail", table, *args, "-o", "ndjson").document["numFiles"])

    assert (num_files("--version", "0"), num_files("--at", "2023-11-14 22:13:20")) == (0, 0)
    assert (num_files("--at", "2099-01-01"), num_files("--at", "1h")) == (1, 1)
    assert cli("describe-detail", table, "--version", "9").code == 1
    assert cli("describe-detail", table, "--version", "1", "--at", "1h").code == 2


def test_a_table_with_little_to_say(cli: RunCli, tmp_path: Path) -> None:
    wide = {
        "type": "struct",
        "fields": [
            {"name": f"c{i}", "type": "long", "nullable": i > 0, "metadata": {}} for i in range(50)
        ],
    }
    action = {"metaData": {**metadata()["metaData"], "schemaString": json.dumps(wide)}}
    action["metaData"]["createdTime"] = None
    oldest = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}}
    write_commit(tmp_path, 0, info(), oldest, action)
    out = cli("describe-detail", str(tmp_path)).out
    assert "created        -\n" in out
    assert "  c0      long  not null\n" in out
    assert "  and 10 more (-o json has the schema)\n" in out
    assert "features                  none\n" in out
    assert "deltactl can optimize it  yes\n" in out


def test_layout_shows_the_share_of_files_that_lookups_skip(cli: RunCli, tmp_path: Path) -> None:
    def file(name: str, low: int, high: int) -> Any:
        action = add(name, 2048)
        bounds = {"minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
        action["add"]["stats"] = json.dumps({"numRecords": 10, **bounds})
        return action

    root, features = str(tmp_path), protocol("clustering", "domainMetadata")
    columns = json.dumps({"clusteringColumns": [["id"]], "domainName": "delta.clustering"})
    domain = {"domain": "delta.clustering", "configuration": columns, "removed": False}
    files = [file("a", 0, 9), file("b", 0, 9), file("c", 20, 29), add("d", 2048)]
    clustering = {"domainMetadata": domain}
    write_commit(tmp_path, 0, info("CREATE TABLE"), features, metadata(), clustering, *files)
    ran = cli("describe-detail", root, "--layout")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.split("\n\n")[2] == (
        "Files that a lookup of one value skips\n"
        "  column  now             after\n"
        "  id      33%  #########     0%\n"
        "  now: 4 files; after: 1 file, hilbert by id\n"
        "  1 file has no statistics of id, so lookups never skip them"
    )
    found = cli("describe-detail", root, "--layout", "-o", "json").document
    assert found["result"]["layout"] == {
        "layout": "hilbert",
        "files_before": 4,
        "files_after": 1,
        "columns": [
            {
                "column": "id",
                "skipped_before": 0.3333,
                "skipped_after": 0.0,
                "files_without_statistics": 1,
            }
        ],
    }
    write_commit(tmp_path / "plain", 0, info("CREATE TABLE"), features, metadata("p"))
    assert cli("describe-detail", f"{root}/plain", "--layout").code == 2


@pytest.mark.parametrize(("share", "bar"), [(0.004, None), (0.005, None), (0.006, 0.006)])
def test_a_share_that_is_shown_as_zero_has_no_bar(share: float, bar: float | None) -> None:
    report = LayoutReport("hilbert", 300, 2, (ColumnSkipping("id", share, None, 0),))
    table = describe_skipping(report).table
    assert table is not None
    assert list(table.rows) == [("id", share, bar, "-", None)]


def test_storage_shows_what_the_files_are_for(cli: RunCli, tmp_path: Path) -> None:
    root = str(tmp_path)
    write_commit(tmp_path, 0, info("CREATE TABLE"), protocol(), metadata())
    ran = cli("describe-detail", root, "--storage", "--price", "1024")
    assert (ran.code, ran.err) == (0, "")
    result = cli("describe-detail", root, "--storage", "-o", "json").result
    assert [row["reason"] for row in result["by_reason"]] == ["commits"]
    size = result["bytes"]
    assert ran.out.startswith(f"{size} B, less than 0.01 a month in 1 file, version 0\n")
    assert "to halve it                     not possible" in ran.out
    rows = cli("describe-detail", root, "--storage", "-o", "csv").out.splitlines()
    assert rows == ["reason,files,bytes,cost", f"commits,1,{size},"]


def test_storage_needs_a_table_that_vacuum_supports(cli: RunCli, table: str) -> None:
    assert cli("describe-detail", table, "--storage").code == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--storage", "--price", "2 EUR"), "--price: '2 EUR' is not a price\nhint: Give the"),
        (("--price", "1"), "--price needs --storage\nhint: Add --storage."),
        (("--inventory", "x.csv"), "--inventory needs --storage\nhint: Add --storage."),
        (("--storage", "--at", "1h"), "--storage and --at cannot be combined"),
    ],
)
def test_options_that_do_not_fit(
    cli: RunCli, table: str, arguments: tuple[str, ...], said: str
) -> None:
    ran = cli("describe-detail", table, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert f"error: {said}" in ran.err


def test_the_largest_table_is_first(cli: RunCli, tmp_path: Path) -> None:
    for name, size in (("a", 10), ("b", 3000), ("c", 500)):
        root = tmp_path / name
        root.mkdir()
        write_commit(root, 0, info("CREATE TABLE"), protocol(), metadata())
        (root / "notes.txt").write_bytes(b"x" * size)
    tables = [str(tmp_path / name) for name in "abc"]
    missing = str(tmp_path / "missing")
    ran = cli("describe-detail", missing, *tables, "--storage", "--jobs", "2")
    assert ran.code == 1
    assert [line.split()[1] for line in ran.out.splitlines()[:3]] == [tables[i] for i in (1, 2, 0)]
    runs = cli("describe-detail", *tables, "--storage", "-o", "json").document["runs"]
    assert [run["table"] for run in runs] == [tables[i] for i in (1, 2, 0)]
    plain = cli("describe-detail", *tables)
    assert plain.out.splitlines()[0] == f"done       {tables[0]}  version 0, 0 files, 0 B"


def test_readers_names_what_stops_an_engine(cli: RunCli, tmp_path: Path) -> None:
    features = ["typeWidening", "novel\x1b[1m"]
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    lists = {"readerFeatures": features, "writerFeatures": features}
    write_commit(tmp_path, 0, info("CREATE TABLE"), {"protocol": versions | lists}, metadata())
    ran = cli("describe-detail", str(tmp_path), "--readers")
    assert ran.code == 0
    engines = ran.out.split("Engines\n")[1]
    assert "\n  delta-rs            1.6, with SQL  " in engines
    assert "novel\\x1b[1m" in engines
    assert max(map(len, engines.splitlines())) <= 80
    result = cli("describe-detail", str(tmp_path), "--readers", "-o", "json").document
    (flink,) = [it for it in result["result"]["readers"] if it["engine"] == "Flink"]
    assert (flink["answer"], flink["reasons"]) == ("no", sorted(features))
