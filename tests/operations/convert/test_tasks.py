"""Footers of a batch that are decoded together, beside the same batch read by Arrow alone."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltactl.operations.convert import tasks
from deltactl.operations.convert.tasks import FooterBatch, FooterSpec, read_footers
from deltactl.parquet.alike_footers import Shape
from deltactl.parquet.format import END_BYTES
from deltactl.protocol.stats_columns import StatsColumns, list_leaves
from deltactl.protocol.stats_encoding import encode_stats_of_files
from tests.parquet.test_alike_footers import file_of, footer_of, stored
from tests.support.stores import MemoryStore, opened_as

_NUMBERS = itertools.count()
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("c", pa.decimal128(12, 3)),
        ("b", pa.bool_()),
        ("f", pa.float64()),
    ]
)


def row(number: int) -> dict[str, Any]:
    return {
        "i": number * 31 - 9,
        "s": f"text {number}",
        "t": number * 10**9,
        "c": Decimal(number * 777).scaleb(-3),
        "b": number % 2 == 0,
        "f": number / 7,
    }


def batch_of(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, shapes: int) -> FooterBatch:
    store = MemoryStore(f"memory://alike/{next(_NUMBERS)}")
    for name, data in files.items():
        store.put(name, data)
    monkeypatch.setattr(tasks, "_MOST_SHAPES", shapes)
    with opened_as(store):
        return read_footers(FooterSpec(store.uri, {}), list(files), 0)


def facts_of(batch: FooterBatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group in batch.groups:
        columns = StatsColumns(list_leaves(group.schema.struct))
        rows = group.files["num_rows"].combine_chunks()
        texts = encode_stats_of_files(rows, group.leaves, columns).to_pylist()
        for file, text in zip(group.files.to_pylist(), texts, strict=True):
            facts = (file["size_bytes"], file["num_rows"], text, repr(group.schema))
            assert found.setdefault(file["path"], facts) == facts
    found |= {name: message for name, _, message in batch.problems}
    return found | {entry.path: entry for entry in batch.left_out}


def changed_files(seed: int) -> dict[str, bytes]:
    """Valid files, and one for each byte after the schema of a footer that is another there."""
    chance = random.Random(seed)
    # Decimals as integers: a bound that is shorter than a decimal ends the process inside Arrow.
    files = {
        f"{n:04}.parquet": file_of(
            [row(n), row(n + 1)], SCHEMA, store_decimal_as_integer=True, store_schema=False
        )
        for n in range(10)
    }
    data = files["0004.parquet"]
    shape = Shape.of(footer_of(data))
    assert shape is not None
    start = len(data) - len(stored(data)) + len(shape.values[0].before)
    for place in range(start, len(data) - END_BYTES):
        changed = bytearray(data)
        changed[place] ^= chance.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        files[f"changed {place:06}.parquet"] = bytes(changed)
    return files


@pytest.mark.parametrize("seed", range(3))
def test_any_changed_byte_gives_what_arrow_reads(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = changed_files(seed)
    together, alone = (batch_of(files, monkeypatch, shapes) for shapes in (8, 0))
    assert facts_of(together) == facts_of(alone)
    assert len(facts_of(together)) == len(files)
    # The valid files and those with other numbers were decoded together.
    assert max(group.files.num_rows for group in together.groups) > 20


def test_shapes_of_one_schema_are_several_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        f"{n:04}.parquet": file_of([{**row(n), "s": None if n % 2 else "x"}], SCHEMA)
        for n in range(20)
    }
    together, alone = (batch_of(files, monkeypatch, shapes) for shapes in (8, 0))
    assert facts_of(together) == facts_of(alone)
    assert [group.files.num_rows for group in together.groups] == [10, 10]


def test_a_sample_that_arrow_reads_otherwise_leaves_all_to_arrow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = {f"{n:04}.parquet": file_of([row(n)], SCHEMA) for n in range(10)}
    monkeypatch.setattr(tasks, "read_alike_columns", lambda *arguments: None)
    together, alone = (batch_of(files, monkeypatch, shapes) for shapes in (8, 0))
    assert facts_of(together) == facts_of(alone)
