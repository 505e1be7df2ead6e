"""Each row of docs/differences.md: the default holds, and the options exist."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from deltactl import Table
from deltactl.cli.command_table import COMMANDS
from deltactl.cli.commands.describe_history import DEFAULT_LIMIT
from deltactl.cli.group import load_command
from deltactl.operations.checkpoint.options import CheckpointOptions
from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.optimize.options import DEFAULT_CODEC, DEFAULT_LAYOUT, OptimizeOptions
from deltactl.operations.optimize.packing import PackingRule, pack
from deltactl.operations.predicate.parse import parse_predicate
from deltactl.operations.target_size import DEFAULT_MIN_SHARE, choose_target_bytes
from deltactl.operations.vacuum.options import VacuumOptions
from deltactl.protocol.partitions import build_map
from deltactl.protocol.schema import Field, PrimitiveType
from deltactl.protocol.stats_columns import StatsLeaf
from deltactl.protocol.variant_bounds import merge_variant_bounds
from deltactl.units import GIB, MIB, TIB
from tests.docs.blocks import read_page
from tests.interop import test_clone_suite as clone
from tests.interop import test_convert_suite as convert
from tests.interop import test_vacuum_suite as vacuum
from tests.support.stores import fresh_store
from tests.support.table_builder import Column, TableBuilder

PAGE: Final = "docs/differences.md"
BOUND: Final = "0rAfabWhTiwQbUe0S-o32]H.-0000000000"  # of a variant


def restores_old_versions() -> bool:
    """The versions of this table are years old, and its retention is a week."""
    builder = TableBuilder(fresh_store(), [Column("id")])
    builder.append([{"id": 1}])
    return Table("x", store=builder.store).restore(version=0).version_after == 2


def times_are_utc() -> bool:
    predicate = parse_predicate(
        "ts = '2024-01-31 12:00:00'", (Field("ts", PrimitiveType("timestamp")),)
    )
    values = build_map({"ts": pa.array(["2024-01-31T12:00:00Z"])})
    return bool(predicate.evaluate(values).to_pylist() == [True])


def leaves_heavy_files() -> bool:
    no = np.zeros(2, np.bool_)
    return pack(np.array([100 * MIB, 50 * MIB]), no, no, PackingRule(256 * MIB, 192 * MIB)) == []


HOLDS: Final[dict[str, Callable[[], bool]]] = {
    "target of 256 MiB": lambda: (
        [choose_target_bytes(None, None, it) for it in (0, 10 * TIB)] == [256 * MIB, GIB]
    ),
    "merges files below 75 %": lambda: DEFAULT_MIN_SHARE == 0.75,
    "leaves a file that outweighs": leaves_heavy_files,
    "commits every 10 minutes and 64 GiB": lambda: (
        (OptimizeOptions().commit_every_ms, OptimizeOptions().commit_every_bytes)
        == (600_000, 64 * GIB)
    ),
    "encodes with zstd, as PROTOCOL.md says": lambda: DEFAULT_CODEC == "zstd",
    "copies large row groups": lambda: OptimizeOptions().rewrite == "auto",
    "a clustered layout is `tile`": lambda: DEFAULT_LAYOUT == "tile",
    "merges bounds of variants": lambda: merge_variant_bounds([(BOUND, BOUND)]) == (BOUND, BOUND),
    "writes bounds of booleans": lambda: StatsLeaf(("b",), "boolean").has_bounds,
    "asks, or needs an option": lambda: not option_of("vacuum", "--yes").preset,
    "lists files only if needed": lambda: VacuumOptions().mode == "auto",
    "keeps files that no Delta writer": lambda: not option_of("vacuum", "--include-unknown").preset,
    "refuses if over half": lambda: VacuumOptions().max_orphan_fraction == 0.5,
    "records a shallow clone": lambda: CloneOptions(False).note,
    "no parsed statistics": lambda: CheckpointOptions().compat == "default",
    "guesses partition types": lambda: ConvertOptions().partition_by is None,
    "takes versions older": restores_old_versions,
    **{
        text: partial(suite.__contains__, scenario)
        for text, suite, scenario in (
            (
                "`--retain` replaces",
                vacuum.HELD,
                "another retention than that of the table, which Spark ignores",
            ),
            ("commits nothing", vacuum.HELD, "nothing to delete: no commit, other than Spark"),
            (
                "replaces only",
                clone.HELD,
                "REPLACE of another table is refused, though Spark takes an empty one",
            ),
            ("keeps deletion vectors", clone.SCENES, "deletion vectors with a clone between"),
            ("takes no feature", clone.SCENES, "delta.minWriterVersion = 7 is refused"),
            ("clones Delta tables only", clone.SCENES, "bare Parquet files"),
            (
                "omits files",
                convert.DIRECTORIES,
                "csv beside Parquet is left out, other than Spark",
            ),
            ("refuses the directory", convert.HELD, "files of a stream, refused other than Spark"),
        )
    },
    "20 commits on a terminal": lambda: DEFAULT_LIMIT == 20,
    "times without zone are UTC": times_are_utc,
}
ROWS: Final = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in read_page(PAGE).splitlines()
    if line.startswith("| `")
]


def option_of(command: str, name: str) -> Any:
    (spec,) = (it for it in COMMANDS if it.name == command)
    return next(it for it in load_command(spec).declared.values() if name in it.names)


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_the_default_is_that_of_the_page(row: list[str]) -> None:
    command, default, *_, options = row
    (holds,) = (check for text, check in HOLDS.items() if default.startswith(text))
    assert holds()
    for name in re.findall(r"--[a-z-]+", options):
        assert option_of(command.strip("`").split()[0], name)


def test_each_check_has_a_row() -> None:
    assert len(ROWS) == len(HOLDS)
