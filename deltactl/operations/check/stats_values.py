"""Values in the text of ``add.stats``: which are of the form that readers expect.

Source: PROTOCOL.md, "Per-file Statistics"; how writers really write: see each rule.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from deltactl.protocol.partition_texts import text_parser
from deltactl.protocol.stats import whole_number

_FLOATS: Final = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
# Lenient: other calendars have other leap years, and years may have more digits.
_BEGINS_WITH_DAY: Final = re.compile(
    r"[+-]?[0-9]{4,}-(?:0?[1-9]|1[0-2])-(?:3[01]|[0-2]?[0-9])(?![0-9])"
)


def is_number(value: Any) -> bool:
    """Whether a value is a number in JSON."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def is_bound(value: Any, kind: str) -> bool:
    """Whether a value is of the form that bounds of a kind of column have."""
    match kind:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return is_number(value) and whole_number(value) is not None
        case "decimal" | "float":
            return is_number(value) or isinstance(value, float) or _is_numeric(value)
        case _:
            return isinstance(value, str) and _BEGINS_WITH_DAY.match(value) is not None


def _is_numeric(value: Any) -> bool:
    """Whether a text is a number: some readers take those."""
    if not isinstance(value, str):
        return False
    try:
        float(value)
    except ValueError:
        return False
    return True


def parse_bound(value: Any, kind: str) -> Any:  # noqa: PLR0911 - a table of kinds
    """A bound as ``LeafStats`` has values; ``None`` where it says nothing that can be compared.

    The bound of an integer may have a fraction.
    """
    try:
        match kind:
            case "string":
                return value if isinstance(value, str) else None
            case "boolean":
                return value if isinstance(value, bool) else None
            case "integer":
                return value if is_number(value) else None
            case "decimal" if is_number(value) or isinstance(value, str):
                exact = Decimal(value)
                return None if exact.is_nan() else exact
            case "float" if not isinstance(value, bool):
                number = _FLOATS.get(value) if isinstance(value, str) else float(value)
                return None if number is None or np.isnan(number) else number
            case "date":
                return _parse_moment(value, pa.date32())
            case "timestamp" | "timestamp_ntz":
                zone = "UTC" if kind == "timestamp" else None
                return _parse_moment(value, pa.timestamp("us", zone))
    except (ValueError, ArithmeticError, TypeError):
        pass
    return None


def _parse_moment(value: Any, type_: pa.DataType) -> Any:
    parse = text_parser(type_)
    assert parse is not None
    return parse(value) if isinstance(value, str) else None


def show(value: Any) -> str:
    """A JSON value for a message, cut short."""
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}..."
