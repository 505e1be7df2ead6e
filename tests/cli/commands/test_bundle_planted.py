"""A table with a text of its own wherever one can be: none of them is in a bundle, in any form."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.commands.test_bundle import read_zip
from tests.cli.conftest import RunCli

NOW = 1_700_000_000_000
QUOTES = (
    "'{}'", '"{}"', "`{}`", "''{}''", r"\'{}\'", "r'{}'", "X'{}'", "${}$", "date '{}'", "/*{}*/",
    "--{}\n", r"\u0041{}", "%27{}%27", "N'{}'", "({} IN (1, 2))", '["(x = {})"]',
)  # fmt: skip
VALUES = (
    "{}", "a {} b", "a/{}/b", "a={}", "p/{}=q", "100%{}", "p%2F{}%3Dq", "ä{}é", "a\u0308{}",
    "'{}\"", "12:{}:00", "{}\nx", "https://h/{}?q=1", "\U0001f600{}", "\\{}\\", "<b>{}&amp;",
    "../{}", "\x1b[31m{}", "{}?x=1",
)  # fmt: skip
OPERATIONS = (
    "WRITE", "DELETE", "UPDATE", "MERGE", "OPTIMIZE", "VACUUM START", "RESTORE", "CLONE",
    "SET TBLPROPERTIES", "ADD COLUMNS", "RENAME COLUMN", "CHANGE COLUMN", "DROP COLUMNS",
    "ADD CONSTRAINT", "CONVERT", "STREAMING UPDATE", "CLUSTER BY", "REORG", "COMPUTE STATS",
)  # fmt: skip
PARAMETERS = (
    "predicate", "matchedPredicates", "notMatchedPredicates", "zOrderBy", "mode", "outputMode",
    "queryId", "epochId", "source", "properties", "columns", "column", "oldColumnPath", "name",
    "expr", "constraints", "version", "timestamp", "path", "catalogTable", "auto", "batchId",
    "targetSize", "status", "partitionBy", "clusterBy", "description", "replaceWhere",
    "merge_predicate", "target_size",
)  # fmt: skip
SCHEMES = ("s3a://{}:{}@{}/x={}/f?sig={}", "abfss://{}@{}.dfs.core.windows.net/{}", "S3://{}/{}",
           "https://{}.blob.core.windows.net/{}?{}={}", "/data/{}/k={}/f", "C:\\{}\\{}",
           "dbfs:/mnt/{}", "file:///{}/{}", "hdfs://{}:8020/{}", "{}:{}/{}")  # fmt: skip

_START = 7  # characters


class Plants:
    """Texts that occur once: where each was planted is known."""

    def __init__(self) -> None:
        self._random = random.Random(20)
        self.places: dict[str, str] = {}

    def __call__(self, place: str, form: str = "{}") -> str:
        texts = []
        for _ in range(form.count("{}")):
            text = "".join(self._random.choices("bcdfghjklmnpqrstvwxz", k=9))
            self.places[text] = place
            texts.append(text)
        parts = form.split("{}")
        return parts[0] + "".join(map("".join, zip(texts, parts[1:], strict=True)))

    def find(self, files: dict[str, bytes]) -> set[tuple[str, str]]:
        """The places whose text is in a file, as it is or encoded."""
        found = set()
        forms = [
            (form.lower(), place)
            for text, place in self.places.items()
            for form in (text, *encode(text))
        ]
        for name, data in files.items():
            said = f"{name}\n{data.decode()}".lower()
            # The rest of a form is looked for only where its start is: there are many.
            starts = {said[at : at + _START] for at in range(len(said))}
            found |= {(it, name) for form, it in forms if form[:_START] in starts and form in said}
        return found


def encode(text: str) -> Iterator[str]:
    """Forms of a text in which its letters are not to be seen."""
    for data in (text.encode(), text.upper().encode()):
        for shift in range(3):
            for code in (base64.b64encode, base64.urlsafe_b64encode):
                # Its first and last characters depend on what stands around.
                yield code(b"\0" * shift + data).decode()[(0, 2, 3)[shift] : -4]
        yield base64.b32encode(data).decode()[:12]
        yield base64.b85encode(data).decode()[:10]
        yield data.hex()
        for form in ("%{:02X}", "%25{:02X}", "\\u{:04x}", "&#{};", "&#x{:x};"):
            yield "".join(form.format(byte) for byte in data)
        yield data.decode()[::-1]


def make_metadata(plant: Plants, columns: list[str], *, is_valid: bool) -> dict[str, Any]:
    """``is_valid``: known properties have values that can be used."""
    element = {"name": plant("nested column"), "type": "string", "nullable": True, "metadata": {}}
    field = {
        "type": "string",
        "nullable": True,
        "metadata": {
            "comment": plant("comment"),
            "CURRENT_DEFAULT": plant("default", "'{}'"),
            "delta.generationExpression": plant("generated", "concat('{}', id)"),
            "delta.invariants": json.dumps({"expression": {"expression": plant("invariant")}}),
            plant("key of column"): plant("value of column"),
        },
    }
    struct = {"type": "struct", "fields": [element]}
    known = ("logRetentionDuration", "targetFileSize", "checkpointPolicy", "appendOnly",
             "deletedFileRetentionDuration", "checkpointInterval", "columnMapping.mode",
             "dataSkippingStatsColumns", "isolationLevel", "enableInCommitTimestamps")  # fmt: skip
    return {
        "id": plant("id of table"),
        "name": plant("name of table"),
        "description": plant("description"),
        "format": {"provider": "parquet", "options": {plant("option"): plant("option")}},
        "schemaString": json.dumps(
            {
                "type": "struct",
                "fields": [
                    {"name": "id", "type": "long", "nullable": True, "metadata": {}},
                    {**field, "name": columns[0]},
                    {**field, "name": columns[1], "type": struct, "metadata": {}},
                ],
            }
        ),
        "partitionColumns": columns[:1],
        "configuration": {
            f"delta.constraints.{plant('constraint')}": plant("constraint", "x <> '{}'"),
            plant("property"): plant("property"),
            "DELTA.appendOnly": plant("property"),
            **({} if is_valid else {f"delta.{it}": plant(it, "1 {}") for it in known}),
        },
        "createdTime": NOW,
    }


def make_info(plant: Plants, operation: str, start: int) -> dict[str, Any]:
    forms = [QUOTES[(start + n) % len(QUOTES)] for n in range(len(PARAMETERS))]
    parameters: dict[str, Any] = {
        name: plant(f"{operation} {name}", form)
        for name, form in zip(PARAMETERS, forms, strict=True)
    }
    return {
        "timestamp": NOW,
        "operation": operation,
        "operationParameters": {
            **parameters,
            plant("parameter"): {"x": [plant("nested parameter")]},
        },
        "operationMetrics": {"numFiles": plant("metric"), plant("metric"): "1"},
        "engineInfo": plant("engine", "Apache-Spark/3.5.1-{}"),
        "clientVersion": plant("engine", "delta-rs.{}"),
        "isolationLevel": plant("isolation"),
        "tags": {plant("tag"): plant("tag")},
        "notebook": {"notebookId": plant("notebook")},
        "job": {"jobName": plant("job")},
        plant("field"): {plant("field"): [plant("field")]},
        **{it: plant(it) for it in ("userName", "userId", "userMetadata", "txnId", "clusterId")},
    }


def make_adds(plant: Plants, root: Path, columns: list[str], form: str) -> Iterator[dict[str, Any]]:
    """Two files of a partition, so that optimize has something to plan."""
    value = plant(f"partition value {form!r}", form)
    folder = f"{quote(columns[0])}={quote(value, safe=' ')}"
    (root / folder).mkdir(parents=True)
    for name in ("{}.parquet", "part-00000-0a1b2c3d-0000-4000-8000-0123456789ab-c000.parquet"):
        file = plant("file name", name)
        pq.write_table(pa.table({"id": [1, 2]}), root / folder / file)
        bounds = {"id": 7, columns[0]: plant("bound"), columns[1]: {"n": plant("bound", "{}'")}}
        stats = {"numRecords": 2, "minValues": bounds, "maxValues": bounds, plant("s"): plant("s")}
        yield {
            "path": quote(f"{folder}/{file}", safe="/="),
            "partitionValues": {columns[0]: value},
            "size": (root / folder / file).stat().st_size,
            "modificationTime": NOW,
            "dataChange": True,
            "stats": json.dumps(stats),
            "tags": {plant("tag"): plant("tag"), "INSERTION_TIME": plant("tag")},
        }


def make_others(plant: Plants) -> Iterator[dict[str, Any]]:
    """Actions that no snapshot needs."""
    values = {plant("partition column"): plant("partition value of a tombstone")}
    gone = {"dataChange": True, "deletionTimestamp": NOW, "partitionValues": values}
    yield {"remove": {**gone, "path": plant("path of a tombstone", "{}={}/{}.parquet")}}
    yield {"cdc": {**gone, "path": plant("path of changes", "_change_data/{}={}/{}"), "size": 1}}
    yield {"txn": {"appId": plant("application"), "version": 1}}
    yield {"domainMetadata": {"domain": plant("domain"), "configuration": plant("domain", '"{}')}}
    clustering = json.dumps({"clusteringColumns": [[plant("clustering")]], "x": plant("domain")})
    yield {"domainMetadata": {"domain": "delta.clustering", "configuration": clustering}}
    yield {plant("action"): {plant("action"): plant("action")}}


def make_odd(plant: Plants) -> Iterator[bytes]:
    """Lines that make a log invalid."""
    for scheme in SCHEMES:
        vector = {"storageType": "p", "pathOrInlineDv": plant("vector", "s3://{}/{}")}
        remove = {"path": plant(scheme, scheme), "dataChange": True, "deletionVector": vector}
        yield json.dumps({"remove": remove}).encode()
    yield json.dumps({"sidecar": {"path": plant("sidecar"), "tags": {"a": plant("tag")}}}).encode()
    yield json.dumps({"checkpointMetadata": {"tags": {plant("tag"): plant("tag")}}}).encode()
    yield plant("no JSON").encode()
    yield b"\xef\xbb\xbf" + plant("byte order mark", '{{"add": {{"path": "{}"}}}}').encode()
    yield plant("UTF-16").encode("utf-16")
    yield plant("twice", '{"add": {"path": "{}", "path": "{}"}}').encode()
    yield plant("carriage return", '{"add": {"path": "{}"}}\r').encode()
    yield b"[" * 20_000 + plant("depth").encode()
    yield (plant("long line") * 50_000).encode()


def make_table(plant: Plants, root: Path, *, is_valid: bool) -> None:
    log = root / "_delta_log"
    log.mkdir(parents=True)
    columns = [plant("partition column", "{} ö'l=\"x"), plant("column")]
    protocol = {"minReaderVersion": 2, "minWriterVersion": 5}
    metadata = make_metadata(plant, columns, is_valid=is_valid)
    commits: list[list[dict[str, Any]]] = [[{"protocol": protocol}, {"metaData": metadata}]]
    commits += [[{"commitInfo": make_info(plant, it, n)}] for n, it in enumerate(OPERATIONS)]
    commits += [[{"add": it} for it in make_adds(plant, root, columns, form)] for form in VALUES]
    commits.append(list(make_others(plant)))
    for version, actions in enumerate(commits):
        lines = [json.dumps(action).encode() for action in actions]
        if version == len(commits) - 1 and not is_valid:
            lines += make_odd(plant)
        (log / f"{version:020}.json").write_bytes(b"\n".join(lines) + b"\n")
    for name in ("{} é.parquet", "{}={}.parquet", "{}"):
        orphan = root / plant("orphan", name)
        orphan.write_bytes(b"x")
        os.utime(orphan, (1, 1))
    (root / plant("other table") / "_delta_log").mkdir(parents=True)
    (log / plant("log", "{}.json")).write_text(plant("log"))
    (log / plant("checkpoint", f"{3:020}.checkpoint.{{}}.json")).write_text(plant("checkpoint"))
    (log / f"{2:020}.crc").write_text(plant("checksum", '{"{}": 1}'))
    (log / "_last_checkpoint").write_text(plant("hint", '{"version": 3, "{}": '))


@pytest.mark.parametrize("is_valid", [True, False])
def test_no_planted_text_is_in_a_bundle(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_valid: bool
) -> None:
    plant = Plants()
    root = tmp_path / plant("directory", "{} 'ä&<") / plant("directory", "day={}")
    make_table(plant, root, is_valid=is_valid)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deltactl.toml").write_text(
        plant("settings", '[profiles.{}]\ntables = ["{}", "*"]\n[optimize]\nmaster = "{}"\n')
    )
    monkeypatch.setenv("DELTACTL_CONFIG", str(tmp_path / "deltactl.toml"))
    monkeypatch.setenv(plant("variable").upper(), plant("variable"))
    for name in ("AWS_SECRET_ACCESS_KEY", "SPARK_REMOTE", "JAVA_HOME", "DELTACTL_MASTER"):
        monkeypatch.setenv(name, plant(name, "sc://{}/;token={}"))
    ran = cli("bundle", str(root), "--file", "b.zip")
    files = read_zip("b.zip")
    assert plant.find(files) == set()
    assert len(plant.places) > 1000
    errors = [part["name"] for part in json.loads(files["parts.json"]) if part["error"]]
    assert (ran.code, errors) == (
        (0, []) if is_valid else (5, ["detail.json", "optimize.json", "vacuum.json"])
    )
    if is_valid:
        assert len(json.loads(files["optimize.json"])["partitions"]) == len(VALUES)
        assert json.loads(files["vacuum.json"])["files"] > 0


def test_planted_texts_would_be_found() -> None:
    plant = Plants()
    (text,) = [plant("here"), *plant.places][1:]
    for form in (text, text.upper(), *encode(text), quote(quote(f"é{text}"))):
        assert plant.find({"x": f"before {form} after".encode()}) == {("here", "x")}
    assert plant.find({f"{text}.json": b""})
    assert plant.find({"x": base64.b64encode(f"ab{text}cd".encode())})
    assert plant.find({"x": b"other"}) == set()
