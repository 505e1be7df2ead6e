"""Build the JSON envelope: one per table and run, the same for all commands."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from deltactl.cli.exits import status_word
from deltactl.errors import DeltactlError, name_table

SCHEMA_VERSION: Final = 1
_PLAIN: Final = frozenset({str, int, bool, type(None)})


class PlainRows(list[dict[str, Any]]):
    """Rows that have only values that JSON has, and no NaN. They are written without a copy."""


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """An error, as in the envelope."""

    code: str
    message: str
    hint: str | None = None

    @classmethod
    def of(cls, error: DeltactlError) -> ErrorInfo:
        """Return code, message and hint of a raised error."""
        return cls(error.code, error.message, error.hint)


@dataclass(slots=True)
class Envelope:
    """What one run of a command did to one table.

    ``version_before`` and ``version_after`` are equal when nothing was committed. ``skipped`` is
    the reason why the run did nothing, although there may be work to do. ``result`` is the part
    that each command defines: a dataclass, a mapping or a list of them. ``exit_code`` is the exit
    status of a run over this table alone. ``published_only``: a catalog may know newer commits.
    ``is_idle``: there was nothing to do. ``is_needed``: something was found, or work is needed.
    """

    command: str | None
    table: str | None
    version_before: int | None = None
    version_after: int | None = None
    dry_run: bool = False
    engine: str | None = None
    engine_reason: str | None = None
    result: Any = None
    warnings: list[str] = field(default_factory=list)
    error: ErrorInfo | None = None
    skipped: str | None = None
    exit_code: int = 0
    published_only: bool = False
    is_idle: bool = False
    is_needed: bool = False

    @property
    def status(self) -> str:
        """The outcome in one word."""
        if self.exit_code:
            return status_word(self.exit_code)
        if self.skipped is not None:
            return "skipped"
        if self.is_idle:
            return "unchanged"
        return "planned" if self.dry_run else status_word(self.exit_code)

    def fail(self, error: DeltactlError) -> None:
        """Set the error with which the run ends; its hint then names the table."""
        if error.hint is not None:
            error.hint = name_table(error.hint, self.table)
        self.error, self.exit_code = ErrorInfo.of(error), error.exit_code

    def to_json(self) -> dict[str, Any]:
        """Return the envelope as JSON values, ``schema_version`` first."""
        shown = {"schema_version": SCHEMA_VERSION, **to_jsonable(self), "status": self.status}
        del shown["is_idle"], shown["is_needed"]  # the status says it
        if not self.published_only:
            del shown["published_only"]
        return shown


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """Encode as JSON in ASCII: other characters are escaped, so none can control a terminal."""
    plain = value.to_json() if isinstance(value, Envelope) else to_jsonable(value)
    return json.dumps(plain, indent=indent, allow_nan=False)


def format_rfc3339(timestamp: datetime) -> str:
    """Return a timestamp in UTC, ending in ``Z``; one without a time zone counts as UTC."""
    if timestamp.tzinfo is not None:
        timestamp = timestamp.astimezone(UTC).replace(tzinfo=None)
    return timestamp.isoformat() + "Z"


def to_jsonable(value: Any) -> Any:
    """Convert a result to values that JSON has.

    Timestamps are RFC 3339 UTC, bytes base64, decimals exact strings, NaN and infinities strings.
    """
    # Most values are plain, most objects dictionaries of them; a long history has millions.
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is dict:
        return {
            key if type(key) is str else _encode_key(key): (
                item if type(item) in _PLAIN else to_jsonable(item)
            )
            for key, item in value.items()
        }
    if kind is PlainRows:
        return value
    if isinstance(value, bool | int | str) and not isinstance(value, Enum):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {_encode_key(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    if isinstance(value, set | frozenset):
        return [to_jsonable(item) for item in sorted(value)]
    return _encode_object(value)


def _encode_key(key: Any) -> str:
    if type(key) is str:
        return key
    encoded = to_jsonable(key)
    return encoded if isinstance(encoded, str) else json.dumps(encoded)


def _encode_object(value: Any) -> Any:
    for kind, encode in _ENCODERS:
        if isinstance(value, kind):
            return encode(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_jsonable(getattr(value, f.name)) for f in fields(value)}
    # Arrow and numpy, recognised by their methods: this module must not import them.
    for convert in ("to_pylist", "as_py", "tolist"):
        if hasattr(value, convert):
            return to_jsonable(getattr(value, convert)())
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


_ENCODERS: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    (Enum, lambda value: to_jsonable(value.value)),
    (datetime, format_rfc3339),  # before date, its base class
    (date | time, lambda value: value.isoformat()),
    (timedelta, timedelta.total_seconds),
    (bytes | bytearray | memoryview, lambda value: base64.b64encode(value).decode("ascii")),
    (Decimal | PurePath, str),
)
