"""A random history: what the table is, and the steps; all of it follows from a seed."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from tests.histories.known import NO_COLON_IN_NAMES_OF_PARTITION_COLUMNS
from tests.histories.rows import Column

Writers = Literal["delta-rs", "spark", "both"]
WRITERS: Final[tuple[Writers, ...]] = get_args(Writers)
OURS: Final = "deltactl"
DELTA_RS: Final = "delta-rs"
SPARK: Final = "spark"
CONVERT: Final = "convert"


@dataclass(frozen=True, slots=True)
class Step:
    """What one program does once; ``seed`` decides how."""

    number: int
    actor: str
    kind: str
    seed: int


@dataclass(frozen=True, slots=True)
class History:
    """A table to make, and what is done to it. ``traits`` are names of :data:`TRAITS`."""

    seed: int
    writers: Writers
    creator: str
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...]
    traits: tuple[str, ...]
    root: str
    steps: tuple[Step, ...]

    def with_steps(self, numbers: Collection[int]) -> History:
        """The same history with these steps alone."""
        return replace(self, steps=tuple(s for s in self.steps if s.number in numbers))

    def with_traits(self, names: Collection[str]) -> History:
        """The same history on a table with these traits alone."""
        return replace(self, traits=tuple(t for t in self.traits if t in names))

    def properties(self) -> dict[str, str]:
        """The properties of the table as it is made."""
        return {key: value for name in self.traits for key, value in TRAITS[name].items()}

    def describe(self) -> str:
        """The table in one line."""
        columns = ", ".join(f"{c.name!r} {c.type}" for c in self.columns)
        return (
            f"{self.root!r} made by {self.creator}; columns {columns}; "
            f"partitioned by {list(self.partition_by)}; traits {','.join(self.traits) or 'none'}"
        )


TRAITS: Final[Mapping[str, Mapping[str, str]]] = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "no-vectors": {"delta.enableDeletionVectors": "false"},
    "mapping-name": {"delta.columnMapping.mode": "name"},
    "mapping-id": {"delta.columnMapping.mode": "id"},
    "row-tracking": {"delta.enableRowTracking": "true"},
    "cdf": {"delta.enableChangeDataFeed": "true"},
    "ict": {"delta.enableInCommitTimestamps": "true"},
    "v2-checkpoints": {"delta.checkpointPolicy": "v2"},
    "widening": {"delta.enableTypeWidening": "true"},
    "checkpoint-often": {"delta.checkpointInterval": "3"},
    "few-stats": {"delta.dataSkippingNumIndexedCols": "2"},
    "no-stats": {"delta.dataSkippingNumIndexedCols": "0"},
    "short-log": {
        "delta.logRetentionDuration": "interval 1 days",
        "delta.deletedFileRetentionDuration": "interval 1 days",
    },
    "no-partition-columns-in-files": {"delta.writePartitionColumnsToParquet": "false"},
    "struct-stats": {"delta.checkpoint.writeStatsAsStruct": "true"},
    "no-json-stats": {
        "delta.checkpoint.writeStatsAsJson": "false",
        "delta.checkpoint.writeStatsAsStruct": "true",
    },
    # No properties: these change the statement that makes the table.
    "constraint": {},
    "generated": {},
    "clustered": {},
    "identity": {},
    "default": {"delta.feature.allowColumnDefaults": "supported"},
}
_OF_BOTH: Final = ("cdf", "checkpoint-often", "few-stats", "no-stats", "short-log", "struct-stats")
_OF_SPARK: Final = (
    *_OF_BOTH,
    "ict",
    "v2-checkpoints",
    "widening",
    "no-partition-columns-in-files",
    "no-json-stats",
    "constraint",
    "default",
)

_TYPES: Final = (
    "BIGINT", "INT", "SMALLINT", "TINYINT", "DOUBLE", "FLOAT", "STRING", "STRING", "BOOLEAN",
    "DATE", "TIMESTAMP", "DECIMAL(10,2)", "DECIMAL(30,5)", "BINARY",
    "STRUCT<a: INT, b: STRING>",
    "ARRAY<INT>",
    "MAP<STRING, INT>",
    "TIMESTAMP_NTZ",
)  # fmt: skip
_PARTITION_TYPES: Final = (
    "STRING", "STRING", "INT", "DATE", "BOOLEAN", "DECIMAL(10,2)", "TIMESTAMP",
)  # fmt: skip
_NAMES: Final = (
    *("v", "näme", "Upper", "select", "p%q", "1st", "#h", "a:b", "a/b", "日", "a-b", "x+y"),
)
# Delta on Spark takes these with column mapping only.
_MAPPED_NAMES: Final = (*_NAMES, "a b", "c,d", "e;f", "g{h}", "i(j)", "k=l", "x.y", "m`n", 'o"p')


# delta-rs makes no table in a folder whose name has a space; DuckDB finds no files below others.
_ROOTS: Final = (*("table",) * 12, "é", "a%20b", "x+y")


def make_history(seed: int, writers: Writers, length: int) -> History:
    chance = random.Random(f"{writers} {seed}")
    creator = _choose_creator(chance, writers)
    # What delta-rs cannot write, no history of both should have too often.
    plain = creator != SPARK or (writers == "both" and chance.random() < 0.6)
    traits = _choose_traits(chance, plain)
    mapped = any(name.startswith("mapping") for name in traits)
    columns, partition_by = _choose_columns(chance, mapped)
    if partition_by:
        traits = [name for name in traits if name != "clustered"]
    steps = tuple(_steps(chance, writers, length))
    root = chance.choice(_ROOTS)
    return History(seed, writers, creator, columns, partition_by, tuple(traits), root, steps)


def _choose_creator(chance: random.Random, writers: Writers) -> str:
    if chance.random() < 0.12:
        return CONVERT
    if writers == "both":
        return chance.choice((DELTA_RS, SPARK, SPARK))
    return writers


def _choose_traits(chance: random.Random, plain: bool) -> list[str]:
    if plain:
        return sorted(chance.sample(_OF_BOTH, chance.randint(0, 2)))
    traits = set(chance.sample(_OF_SPARK, chance.randint(0, 4)))
    traits.add(chance.choice(("vectors", "vectors", "no-vectors")))
    for share, name in (
        (0.35, chance.choice(("mapping-name", "mapping-id"))),
        (0.35, "row-tracking"),
        (0.15, "clustered"),
        (0.15, "generated"),
        (0.1, "identity"),
    ):
        if chance.random() < share:
            traits.add(name)
    return sorted(traits)


def _choose_columns(
    chance: random.Random, mapped: bool
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    names = chance.sample(_MAPPED_NAMES if mapped else _NAMES, 7)
    columns = [Column("k", "BIGINT")]
    columns += [Column(names.pop(), chance.choice(_TYPES)) for _ in range(chance.randint(1, 4))]
    partitions: list[Column] = []
    for _ in range(chance.choice((0, 1, 1, 1, 2))):
        odd = [n for n in names if ":" not in n or not NO_COLON_IN_NAMES_OF_PARTITION_COLUMNS]
        name = "p" if not partitions and chance.random() < 0.7 else odd[-1]
        names = [n for n in names if n != name]
        partitions.append(Column(name, chance.choice(_PARTITION_TYPES)))
    for column in partitions:
        columns.insert(chance.randint(0, len(columns)), column)
    return tuple(columns), tuple(column.name for column in partitions)


_DELTA_RS_STEPS: Final = {
    "append": 8,
    "append-once": 1,
    "delete": 5,
    "update": 4,
    "merge": 4,
    "overwrite": 1,
    "overwrite-where": 2,
    "add-column": 1,
    "restore": 2,
    "compact": 2,
    "z-order": 1,
    "checkpoint": 2,
    "vacuum": 1,
    "set-property": 1,
    "add-constraint": 1,
}
_SPARK_STEPS: Final = {
    "append": 8,
    "append-once": 1,
    "delete": 5,
    "update": 4,
    "merge": 3,
    "overwrite": 1,
    "overwrite-where": 1,
    "overwrite-dynamic": 1,
    "add-column": 1,
    "rename-column": 1,
    "drop-column": 1,
    "widen-column": 1,
    "restore": 2,
    "optimize": 2,
    "z-order": 1,
    "purge": 1,
    "checkpoint": 2,
    "vacuum": 1,
    "set-property": 1,
    "upgrade": 1,
    "drop-feature": 1,
    "add-constraint": 1,
}
_OUR_STEPS: Final = {
    "optimize": 8,
    "vacuum": 5,
    "checkpoint": 5,
    "manifest": 1,
    "check": 3,
    "age": 2,
    "repair-checkpoints": 1,
}


def _steps(chance: random.Random, writers: Writers, length: int) -> Sequence[Step]:
    others = {"delta-rs": (DELTA_RS,), "spark": (SPARK,), "both": (DELTA_RS, SPARK)}[writers]
    kinds = {DELTA_RS: _DELTA_RS_STEPS, SPARK: _SPARK_STEPS, OURS: _OUR_STEPS}
    # Enough files at first for there to be something to merge.
    steps = [Step(n, chance.choice(others), "append", chance.getrandbits(32)) for n in range(1, 4)]
    for number in range(4, 4 + chance.randint(length // 2, length)):
        actor = OURS if chance.random() < 0.45 else chance.choice(others)
        kind = _weighted(chance, kinds[actor])
        steps.append(Step(number, actor, kind, chance.getrandbits(32)))
    return steps


def _weighted(chance: random.Random, weights: Mapping[str, int]) -> str:
    return chance.choices(list(weights), list(weights.values()))[0]
