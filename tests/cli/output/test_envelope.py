import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.cli.output.envelope import Envelope, ErrorInfo, dump_json, to_jsonable
from deltactl.errors import LogGapError


class Color(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Word(StrEnum):
    ONE = "one"


@dataclass(frozen=True)
class Part:
    size_bytes: int
    at: datetime


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (datetime(2024, 1, 31, 12, 0, 0, 123000), "2024-01-31T12:00:00.123000Z"),
        (datetime(2024, 1, 31, 1, tzinfo=timezone(timedelta(hours=2))), "2024-01-30T23:00:00Z"),
        (date(2024, 1, 31), "2024-01-31"),
        (time(12, 30), "12:30:00"),
        (timedelta(seconds=90), 90.0),
        (b"\x00\xff", "AP8="),
        (Decimal("1.10"), "1.10"),
        (Path("/a/b"), "/a/b"),
        ((1, None, True), [1, None, True]),
        ({"b", "a"}, ["a", "b"]),
        ({1: "x", date(2024, 1, 1): "y"}, {"1": "x", "2024-01-01": "y"}),
        (Color.RED, "red"),
        (Level.HIGH, 3),
        (Word.ONE, "one"),
        (
            Part(5, datetime(2024, 1, 1, tzinfo=UTC)),
            {"size_bytes": 5, "at": "2024-01-01T00:00:00Z"},
        ),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (np.int64(7), 7),
        (np.array([1, 2]), [1, 2]),
        (pa.scalar(5), 5),
        (pa.table({"a": [1, None]}), [{"a": 1}, {"a": None}]),
    ],
)
def test_values_become_json_values(value: Any, plain: Any) -> None:
    assert to_jsonable(value) == plain
    assert json.loads(dump_json(value)) == plain


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="object cannot be written as JSON"):
        to_jsonable(object())


def test_the_envelope_is_the_contract() -> None:
    error = ErrorInfo.of(LogGapError("version 7 is missing", hint="restore it"))
    envelope = Envelope("optimize", "/t", 6, None, True, "local", "small", {"n": 1}, ["w"], error)
    assert list(envelope.to_json().items()) == [
        ("schema_version", 1),
        ("command", "optimize"),
        ("table", "/t"),
        ("version_before", 6),
        ("version_after", None),
        ("dry_run", True),
        ("engine", "local"),
        ("engine_reason", "small"),
        ("result", {"n": 1}),
        ("warnings", ["w"]),
        ("error", {"code": "LOG_GAP", "message": "version 7 is missing", "hint": "restore it"}),
        ("skipped", None),
        ("exit_code", 0),
        ("status", "planned"),
    ]


@given(st.text(st.characters(codec=None)))
def test_json_is_plain_ascii_and_exact(text: str) -> None:
    encoded = dump_json(text)
    assert encoded.isascii()
    assert encoded.isprintable() or "\x7f" in encoded
    assert json.loads(encoded) == text
