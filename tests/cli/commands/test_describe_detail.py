from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from deltactl.clock import SystemClock
from tests.cli.conftest import RunCli
from tests.support.history_logs import START_MS, add, info, metadata, write_commit


@pytest.fixture(autouse=True)
def two_hours_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SystemClock, "now_ms", lambda self: START_MS + 7_200_000)


@pytest.fixture
def table(tmp_path: Path) -> str:
    protocol = {
        "protocol": {
            "minReaderVersion": 1,
            "minWriterVersion": 7,
            "writerFeatures": ["appendOnly", "novelFeature"],
        }
    }
    write_commit(tmp_path, 0, info("CREATE TABLE"), protocol, metadata("p", user_key="v\x1b[1m"))
    write_commit(tmp_path, 1, info(), add("f1", 2048))
    return str(tmp_path)


def test_the_page_shows_each_fact_on_a_line(cli: RunCli, table: str) -> None:
    ran = cli("describe-detail", table)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"location        file:{table}\n"
        "version         1, committed 2023-11-14T22:13:21.000Z (1 h ago)\n"
        "size            1 file, 2 KiB\n"
        "id              table-id\n"
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
        "  user.key  v\\x1b[1m\n"
        "\n"
        "features                  appendOnly, novelFeature\n"
        "deltactl can read it      yes\n"
        "deltactl can optimize it  no: cannot rewrite files of this table: unsupported\n"
        "                          table feature: novelFeature\n"
    )


def test_json_has_the_members_of_describe_detail_on_spark(cli: RunCli, table: str) -> None:
    envelope = json.loads(cli("describe-detail", table, "-o", "json").out)
    assert envelope["version_after"] == 1
    assert envelope["result"] == {
        "format": "delta",
        "id": "table-id",
        "name": None,
        "description": None,
        "location": f"file:{table}",
        "createdAt": "2023-11-14T22:13:20.000Z",
        "lastModified": "2023-11-14T22:13:21.000Z",
        "partitionColumns": ["p"],
        "clusteringColumns": [],
        "numFiles": 1,
        "sizeInBytes": 2048,
        "properties": {"user.key": "v\x1b[1m"},
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
    assert json.loads(cli("describe-detail", table, "-o", "ndjson").out) == envelope["result"]


def test_an_older_version_is_named_by_number_or_time(cli: RunCli, table: str) -> None:
    def num_files(*args: str) -> int:
        return int(json.loads(cli("describe-detail", table, *args, "-o", "ndjson").out)["numFiles"])

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
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}}
    write_commit(tmp_path, 0, info(), protocol, action)
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

    root = str(tmp_path)
    protocol = {
        "protocol": {
            "minReaderVersion": 1,
            "minWriterVersion": 7,
            "writerFeatures": ["clustering", "domainMetadata"],
        }
    }
    columns = json.dumps({"clusteringColumns": [["id"]], "domainName": "delta.clustering"})
    domain = {"domain": "delta.clustering", "configuration": columns, "removed": False}
    files = [file("a", 0, 9), file("b", 0, 9), file("c", 20, 29), add("d", 2048)]
    clustering = {"domainMetadata": domain}
    write_commit(tmp_path, 0, info("CREATE TABLE"), protocol, metadata(), clustering, *files)
    ran = cli("describe-detail", root, "--layout")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.split("\n\n")[2] == (
        "Files that a lookup of one value skips\n"
        "  column  now             after\n"
        "  id      33%  #########     0%\n"
        "  now: 4 files; after: 1 file, hilbert by id\n"
        "  1 file has no statistics of id, so lookups never skip them"
    )
    found = json.loads(cli("describe-detail", root, "--layout", "-o", "json").out)
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
    write_commit(tmp_path / "plain", 0, info("CREATE TABLE"), protocol, metadata("p"))
    assert cli("describe-detail", f"{root}/plain", "--layout").code == 2
