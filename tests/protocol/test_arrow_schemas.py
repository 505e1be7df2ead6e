"""Arrays of memory equal those that Arrow makes of values."""

import numpy as np
import pyarrow as pa
import pytest

from deltactl.errors import UnsupportedFeatureError
from deltactl.protocol.arrow_schemas import array_of, arrow_type, empty_table, flags_of, texts_of
from deltactl.protocol.schema import PRIMITIVE_NAMES, PrimitiveType, is_supported


@pytest.mark.parametrize("kind", ["int32", "int64", "bool"])
@pytest.mark.parametrize("count", [0, 1, 9])
def test_arrays_of_numbers_and_back(kind: str, count: int) -> None:
    values = (np.arange(count) % 3).astype(kind)
    made = array_of(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))
    part = made.slice(count // 2)
    read = flags_of(part) if kind == "bool" else part.to_numpy()
    assert read.dtype == values.dtype
    assert read.tolist() == values[count // 2 :].tolist()


def test_arrays_of_every_second_number() -> None:
    assert array_of(np.arange(6)[::2]).to_pylist() == [0, 2, 4]


def test_flags_of_joins_the_chunks() -> None:
    chunks = pa.chunked_array([[True], [], [False, True]], pa.bool_())
    assert flags_of(chunks).tolist() == [True, False, True]
    assert flags_of(pa.chunked_array([], pa.bool_())).tolist() == []


def test_texts_of_makes_a_valid_string_array() -> None:
    values = ["", "é", "ab"]
    made = texts_of(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))
    assert texts_of([]).equals(pa.array([], pa.string()))


def test_empty_table_equals_that_of_arrow() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.map_(pa.string(), pa.string()))])
    assert empty_table(schema).equals(schema.empty_table())


@pytest.mark.parametrize(
    "name",
    [
        *sorted(PRIMITIVE_NAMES),
        "decimal(38,38)",
        "decimal(39,0)",
        "decimal(3,4)",
        "null",
        "char(3)",
    ],
)
def test_the_supported_types_are_those_that_have_an_arrow_type(name: str) -> None:
    kind = PrimitiveType(name)
    if is_supported(kind):
        arrow_type(kind)
    else:
        with pytest.raises(UnsupportedFeatureError):
            arrow_type(kind)
