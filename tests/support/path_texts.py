"""Tables whose log names files by texts of the test's choosing, and models of their readers."""

import json
import os
import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

_LONG_AGO: Final = 1_600_000_000
_SCHEMA: Final = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "p", "type": "string", "nullable": True, "metadata": {}},
        ],
    }
)

Reading = Callable[[str], str]


def _normal(text: str) -> str:
    return posixpath.normpath(text)


READINGS: Final[Mapping[str, Reading]] = {
    "as written": str,
    "normalised": _normal,
    "decoded": lambda text: _normal(unquote(text)),
}
"""How a reader tells whether two texts are one file."""


class TextTable:
    """A table of the columns ``id`` and ``p``; each file has the rows it was made with."""

    def __init__(self, root: Path, **configuration: str) -> None:
        self.root = root
        self.version = -1
        self.history: list[tuple[str, str]] = []
        self.features = ("appendOnly",) if "delta.appendOnly" in configuration else ()
        metadata = {
            "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": _SCHEMA,
            "partitionColumns": ["p"],
            "configuration": configuration,
            "createdTime": 0,
        }
        protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
        self.commit({"protocol": protocol}, {"metaData": metadata})

    def commit(self, *actions: Mapping[str, Any], operation: str = "WRITE", **info: Any) -> int:
        """Write the next commit, dated long ago."""
        self.version += 1
        said = {"timestamp": (_LONG_AGO + self.version) * 1000, "operation": operation, **info}
        path = self.root / "_delta_log" / f"{self.version:020}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(action) for action in ({"commitInfo": said}, *actions)]
        path.write_text("\n".join(lines) + "\n", "utf-8")
        os.utime(path, (_LONG_AGO + self.version, _LONG_AGO + self.version))
        return self.version

    def write_file(self, name: str, ids: tuple[int, ...]) -> int:
        """Write a data file by its decoded name; give its size in bytes."""
        path = self.root / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
            os.utime(path, (_LONG_AGO, _LONG_AGO))
        return path.stat().st_size

    def add(self, text: str, ids: tuple[int, ...] = (1, 2, 3), p: str = "é") -> int:
        size = self.write_file(self.name_of(text), ids)
        self.history.append(("add", text))
        stats = json.dumps({"numRecords": len(ids)})
        body = {"path": text, "partitionValues": {"p": p}, "size": size}
        return self.commit(
            {"add": {**body, "modificationTime": 0, "dataChange": True, "stats": stats}}
        )

    def remove(self, text: str, p: str = "é", operation: str = "DELETE", **info: Any) -> int:
        self.history.append(("remove", text))
        body = {"path": text, "deletionTimestamp": 0, "dataChange": True}
        values = {"extendedFileMetadata": True, "partitionValues": {"p": p}, "size": 1}
        return self.commit({"remove": {**body, **values}}, operation=operation, **info)

    def name_of(self, text: str) -> str:
        """Give the decoded name below the table that a text stands for."""
        name = unquote(text).removeprefix("file:")
        return posixpath.relpath(name, self.root) if name.startswith("/") else _normal(name)

    def live(self, reading: Reading) -> list[str]:
        """Give the texts of live files, as a reader with this reading replays the commits."""
        found: dict[str, str] = {}
        for kind, text in self.history:
            if kind == "add":
                found[reading(text)] = text
            else:
                found.pop(reading(text), None)
        return sorted(found.values())

    def protected(self) -> set[str]:
        """Give the names that are live by any reading."""
        return {self.name_of(text) for it in READINGS.values() for text in self.live(it)}

    def stored(self) -> set[str]:
        """Give the names of all data files."""
        names = (str(path.relative_to(self.root)) for path in self.root.rglob("*.parquet"))
        return {name for name in names if not name.startswith("_delta")}
