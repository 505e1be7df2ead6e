"""One text per row, equal for the same row whether it comes as Arrow or as Spark's JSON.

Spark's JSON says less than Arrow (all numbers look alike), so both sides are brought into the form
that the Arrow type asks for. Variants are left out: their bytes may differ for the same value.
"""

import base64
import json
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

_EPOCH = datetime(1970, 1, 1)
_SIMPLE = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "binary": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
    "timestamp[us]": "timestamp_ntz",
    "null": "void",
}


def spark_type(arrow: pa.DataType) -> str:
    """The type as Spark's ``simpleString`` names it; a type Spark has not stays Arrow's."""
    if is_variant(arrow):
        return "variant"
    if pa.types.is_struct(arrow):
        return f"struct<{','.join(f'{f.name}:{spark_type(f.type)}' for f in arrow)}>"
    if pa.types.is_map(arrow):
        return f"map<{spark_type(arrow.key_type)},{spark_type(arrow.item_type)}>"
    if _is_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _SIMPLE.get(str(arrow), f"arrow {arrow}")


def is_variant(arrow: pa.DataType) -> bool:
    """Whether this is a variant: Arrow has no type for it."""
    if not pa.types.is_struct(arrow):
        return False
    return {(f.name, str(f.type)) for f in arrow} == {("metadata", "binary"), ("value", "binary")}


def comparable(schema: pa.Schema) -> pa.Schema:
    """The columns that hold no variants."""
    return pa.schema([f for f in schema if "variant" not in spark_type(f.type)])


def arrow_rows(table: pa.Table) -> list[str]:
    """The canonical texts of all rows, sorted."""
    columns = [[_from_arrow(value) for value in column] for column in table.columns]
    names = table.column_names
    return sorted(_text(dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True))


def json_rows(texts: Iterable[str], schema: pa.Schema) -> list[str]:
    """The same of what Spark's ``to_json`` made, under the types of ``schema``."""
    rows = (json.loads(text, parse_float=str) for text in texts)
    return sorted(_text({f.name: _from_json(f.type, row[f.name]) for f in schema}) for row in rows)


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False)


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow))


def _is_binary(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))


def _from_arrow(value: pa.Scalar) -> Any:
    form: Any
    arrow = value.type
    if not value.is_valid:
        form = None
    elif pa.types.is_struct(arrow):
        form = {name: _from_arrow(item) for name, item in value.items()}
    elif pa.types.is_map(arrow):
        pairs = [(_from_arrow(e["key"]), _from_arrow(e["value"])) for e in value.values]
        form = sorted(([str(key), item] for key, item in pairs), key=str)
    elif _is_list(arrow):
        form = [_from_arrow(item) for item in value.values]
    elif pa.types.is_timestamp(arrow):
        form = _moment(timedelta(microseconds=value.value))
    elif pa.types.is_date(arrow):
        form = str((_EPOCH + timedelta(days=value.value)).date())
    elif _is_binary(arrow):
        form = value.as_py().hex()
    else:
        form = _number_form(arrow)(value.as_py())
    return form


def _from_json(arrow: pa.DataType, value: Any) -> Any:
    form: Any
    if value is None:
        form = None
    elif pa.types.is_struct(arrow):
        form = {f.name: _from_json(f.type, value[f.name]) for f in arrow}
    elif pa.types.is_map(arrow):
        pairs = ([key, _from_json(arrow.item_type, item)] for key, item in value.items())
        form = sorted(pairs, key=str)
    elif _is_list(arrow):
        form = [_from_json(arrow.value_type, item) for item in value]
    elif pa.types.is_timestamp(arrow):
        form = _moment(datetime.fromisoformat(value) - _EPOCH)
    elif pa.types.is_date(arrow):
        form = str(date.fromisoformat(value))
    elif _is_binary(arrow):
        form = base64.b64decode(value).hex()
    else:
        form = _number_form(arrow)(value)
    return form


def _moment(since_epoch: timedelta) -> str:
    return (_EPOCH + since_epoch).isoformat(" ", "microseconds")


def _decimal_text(value: Decimal, scale: int) -> str:
    # Python's own context has 28 digits.
    return format(value.quantize(Decimal(1).scaleb(-scale), context=Context(prec=76)), "f")


def _number_form(arrow: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_float32(arrow):
        return lambda value: repr(float(np.float32(value)))
    if pa.types.is_floating(arrow):
        return lambda value: repr(float(value))
    if pa.types.is_decimal(arrow):
        return lambda value: _decimal_text(Decimal(value), arrow.scale)
    return lambda value: value
