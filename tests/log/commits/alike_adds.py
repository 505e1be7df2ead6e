"""Add lines that are written alike, and what the parser reads from them."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from deltactl.errors import CorruptLogError
from deltactl.log.commits import parser as parser_module
from deltactl.log.commits.lines import CommitBytes
from deltactl.log.commits.parser import CommitParser, ParsedActions

STATS = '{"numRecords":3,"minValues":{"a":"x"},"maxValues":{"a":"é"},"nullCount":{"a":0}}'


def add(path: str = "p=1/part-0.parquet", **members: Any) -> dict[str, Any]:
    first = {"path": path, "partitionValues": {"p": "1"}, "size": 12, "modificationTime": 34}
    return {"add": {**first, "dataChange": True, "stats": STATS, **members}}


def encode(action: dict[str, Any]) -> bytes:
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False).encode()


GOOD = encode(add())
BEFORE_STATS = GOOD[: GOOD.index(b"{\\")]


def parse(content: bytes, keys: tuple[str, ...] = ("p",)) -> list[ParsedActions]:
    with patch.object(parser_module, "_LEAST_CUT_LINES", 1):
        return list(CommitParser(keys).parse([CommitBytes("0.json", content)]))


def outcome(content: bytes, keys: tuple[str, ...] = ("p",)) -> list[dict[str, Any]] | str:
    """The rows, or the error."""
    try:
        return [row for part in parse(content, keys) for row in part.adds.to_pylist()]
    except CorruptLogError as error:
        return error.message


def uncut(content: bytes, keys: tuple[str, ...] = ("p",)) -> list[dict[str, Any]] | str:
    with patch.object(parser_module, "cut_adds", lambda *_: None):
        return outcome(content, keys)
