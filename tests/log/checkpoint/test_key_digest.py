"""The digest of the keys of rows does not depend on how they are divided into batches."""

from typing import Any

import pyarrow as pa
import pytest

from deltactl.log.checkpoint.action_file import Fingerprint, KeyDigest
from deltactl.protocol.arrow_schemas import ADD_SCHEMA

VECTOR = {
    "storage_type": "u",
    "path_or_inline_dv": "vBn[lx{q8@P<9BNH/isA",
    "offset": 1,
    "size_bytes": 36,
    "cardinality": 2,
}
COLUMNS = ("encoded_path", "deletion_vector", "size_bytes")


def digest(rows: list[dict[str, Any]], *ends: int) -> Fingerprint:
    table = pa.Table.from_pylist(rows, schema=pa.schema([ADD_SCHEMA.field(it) for it in COLUMNS]))
    found = KeyDigest()
    for first, end in zip([0, *ends], [*ends, len(rows)], strict=True):
        for batch in table.slice(first, end - first).to_batches():
            found.add(batch)
    return found.finish()


def make_rows(*with_vector: int) -> list[dict[str, Any]]:
    return [
        {
            "encoded_path": f"f{number}",
            "deletion_vector": VECTOR if number in with_vector else None,
            "size_bytes": number,
        }
        for number in range(6)
    ]


@pytest.mark.parametrize("vectors", [(), (3,), (0, 5), tuple(range(6))])
@pytest.mark.parametrize("ends", [(1,), (3,), (4,), (2, 4), (1, 2, 3, 4, 5)])
def test_batches_do_not_matter(vectors: tuple[int, ...], ends: tuple[int, ...]) -> None:
    assert digest(make_rows(*vectors), *ends) == digest(make_rows(*vectors))


def test_each_column_and_the_order_matter() -> None:
    rows = make_rows(3)
    others = [
        make_rows(),
        make_rows(2),
        rows[::-1],
        rows[:5],
        [*rows[:5], {**rows[5], "encoded_path": "f"}],
        [*rows[:5], {**rows[5], "size_bytes": None}],
    ]
    found = [digest(each).digest for each in (rows, *others)]
    assert len(set(found)) == len(found)
