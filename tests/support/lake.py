"""A lake of tables, by a seed: streams, appends, bulk loads, deletes, cold and broken ones.

Which kind has which name is chance, so the order of names says nothing about what is worth work.
"""

import os
import random
import time
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.table_builder import Column, Row, TableBuilder, array_of, commit_path

TARGET: Final = 256 * 1024
"""The target size that each table's property names."""

_DAY_S: Final = 86_400
_KINDS: Final = ("stream", "append", "bulk", "deletes", "cold", "hot", "broken")
_WEIGHTS: Final = (3, 3, 6, 2, 3, 1, 1)
_COLUMNS: Final = (Column("id"), Column("part", "string"), Column("payload", array_of("long")))


@dataclass(frozen=True)
class LakeTable:
    """A table of the lake, and what was written to it."""

    name: str
    kind: str
    digest: tuple[int, int]
    sums: tuple[int, ...]


def digest_rows(rows: Iterable[Row]) -> tuple[int, int]:
    """Count rows and sum up their hashes: rows in any order, in little memory."""
    sums = []
    for row in rows:
        plain = repr((row["id"], row["part"])).encode()
        sums.append(zlib.crc32(array("q", row["payload"]).tobytes(), zlib.crc32(plain)))
    return len(sums), sum(sums)


SUMS: Final = (
    "count(1)",
    "sum(id)",
    "sum(size(payload))",
    "sum(pmod(payload[0], 1000))",
    "sum(pmod(payload[size(payload) - 1], 1000))",
)
"""What a query on Spark gives for the same rows as ``sum_rows``."""


def sum_rows(rows: Iterable[Row]) -> tuple[int, ...]:
    """Return what ``SUMS`` gives: little to send, of tables that have much to read."""
    known = [
        (1, row["id"], len(row["payload"]), row["payload"][0] % 1000, row["payload"][-1] % 1000)
        for row in rows
    ]
    return tuple(map(sum, zip(*known, strict=True)))


def build_lake(root: Path, number: int, seed: int) -> list[LakeTable]:
    """Write a lake; each kind occurs, and the tables are in the order of their names."""
    chance = random.Random(seed)
    kinds = list(_KINDS) + chance.choices(_KINDS, _WEIGHTS, k=number - len(_KINDS))
    chance.shuffle(kinds)
    names = [f"t{n:03d}" for n in range(number)]
    return [_build(root / name, kind, chance) for name, kind in zip(names, kinds, strict=True)]


def _build(root: Path, kind: str, chance: random.Random) -> LakeTable:
    has_parts = kind in ("append", "deletes")
    builder = TableBuilder(
        root,
        _COLUMNS,
        partition_by=["part"] if has_parts else [],
        features=["deletionVectors"] if kind == "deletes" else [],
        properties={"delta.targetFileSize": str(TARGET)},
    )
    # Commits (least, most), partitions of the files of each, and sizes of the files.
    commits, parts, least, most = {
        "stream": ((15, 30), [""] * 4, 300, 900),
        "hot": ((15, 30), [""] * 4, 300, 900),
        "append": ((6, 10), ["a", "b", "c"], 15_000, 40_000),
        "deletes": ((6, 6), ["a", "b"], 20_000, 40_000),
        "cold": ((1, 1), [""] * 3, TARGET, TARGET + 20_000),
    }.get(kind, ((5, 8), [""] * 4, 60_000, 110_000))
    writer = _Writer(builder, chance)
    for _ in range(chance.randint(*commits)):
        writer.append(parts, least, most, is_now=kind == "hot")
    if kind == "deletes":
        builder.remove(*chance.sample(writer.paths, 4))
        live = next(
            path for path in writer.paths if any((path == live for live, _ in builder.state.files))
        )
        builder.delete_rows(live, [0])
    if kind != "hot":
        _age(root, 30)
    if kind == "broken":
        (root / commit_path(2)).unlink()
    rows = builder.rows()
    return LakeTable(root.name, kind, digest_rows(rows), sum_rows(rows))


class _Writer:
    """Appends files of random numbers, which no codec makes smaller."""

    def __init__(self, builder: TableBuilder, chance: random.Random) -> None:
        self.builder, self.chance = builder, chance
        self.paths: list[str] = []
        self._id = 0

    def append(self, parts: list[str], least: int, most: int, *, is_now: bool = False) -> None:
        files = [self._rows(part, self.chance.randint(least, most)) for part in parts]
        now_ms = int(time.time() * 1000) if is_now else None
        self.paths += self.builder.append(*files, modified_ms=now_ms)

    def _rows(self, part: str, size: int) -> list[Row]:
        self._id += 2
        count = max(size // 16, 1)  # 8 bytes each, in two rows
        halves = [array("q", self.chance.randbytes(8 * count)).tolist() for _ in range(2)]
        return [
            {"id": self._id + n, "part": part, "payload": half} for n, half in enumerate(halves)
        ]


def _age(root: Path, days: int) -> None:
    """Give all files a time in the past, a second apart."""
    began = time.time() - days * _DAY_S
    for number, path in enumerate(sorted(root.rglob("*"), key=lambda it: it.name)):
        if path.is_file():
            os.utime(path, (began + number, began + number))
