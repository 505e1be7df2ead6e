"""The steps that deltactl takes: each command with random options, through the library."""

import os
import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from deltactl import (
    CheckOptions,
    CheckpointOptions,
    DeltactlError,
    Depth,
    ManifestOptions,
    OptimizeOptions,
    SafetyError,
    Table,
    UnsupportedFeatureError,
    VacuumOptions,
)
from deltactl.errors import ignore_warning
from deltactl.operations.vacuum.run import vacuum_table
from deltactl.storage.open import open_store
from deltactl.units import DAY_MS
from tests.histories.known import FINDINGS_OF_DELTA_RS, has_lossy_bounds
from tests.histories.state import SPARK_SQL, BrokenError, RefusedError, State, partition_condition
from tests.support.run import run_on

_REFUSALS: Final = (SafetyError, UnsupportedFeatureError)


def take_step(kind: str, chance: random.Random, state: State) -> str:
    """Take a step; gives what was done.

    Raises:
        RefusedError: a rule of safety or a feature is in the way.
        BrokenError: it failed, though other readers read the table.
    """
    table = Table(str(state.path), warn=ignore_warning)
    with judged(f"deltactl {kind}"):
        return _STEPS[kind](chance, table, state)


@contextmanager
def judged(what: str) -> Iterator[None]:
    """Raise what our code raised as a refusal or as a failure of the history.

    Raises:
        RefusedError: a rule of safety or a feature is in the way.
        BrokenError: anything else.
    """
    try:
        yield
    except (RefusedError, BrokenError):
        raise
    except _REFUSALS as error:
        raise RefusedError(f"{error.code}: {error.message[:300]}") from error
    except DeltactlError as error:
        raise BrokenError(f"{what}: {error.code}", traceback.format_exc()) from error
    except Exception as error:
        raise BrokenError(f"{what}: {type(error).__name__}", traceback.format_exc()) from error


def _optimize(chance: random.Random, table: Table, state: State) -> str:
    where = None
    if state.partition_by and state.rows.num_rows and chance.random() < 0.2:
        where = partition_condition(chance, state, SPARK_SQL)
    options = _some(
        chance,
        target_bytes=(20_000, 100_000),
        max_deleted_rows_ratio=(0.0, 0.3, 1.0),
        # Spark comes without a codec for brotli.
        codec=("zstd", "gzip", "none", "lz4", "zstd", "snappy"),
        verify=("full",),
        min_input_files=(1,),
        commit_every_bytes=(1,),
    )
    if chance.random() < 0.15:
        options["purge"] = True
    if chance.random() < 0.1:
        options["max_bytes"] = 20_000
    report = table.optimize(OptimizeOptions(where=where, **options))
    return f"{_words(where=where, **options)}: {len(report.versions)} commits"


def _vacuum(chance: random.Random, table: Table, _: State) -> str:
    options = _some(
        chance,
        mode=("full", "lite"),
        keep_last=(1, 3),
        max_files=(1, 5),
        quarantine=(True,),
        orphans=("all",),
        retain_ms=(0, 0, 0, DAY_MS),
    )
    fixed = {"force_retention": True, "max_orphan_fraction": 1.0}
    words = _words(**options)
    run = partial(vacuum_table, orphans=options.pop("orphans", "keep"))
    run_on(open_store(table.uri), run, VacuumOptions(**options, **fixed))  # type: ignore[arg-type]
    return words


def _checkpoint(chance: random.Random, table: Table, _: State) -> str:
    options = _some(
        chance,
        kind=("classic", "v2"),
        sidecar_rows=(1, 3),
        top_format=("parquet",),
        compat=("spark", "plain"),
        cleanup=(True,),
        compact_log=(True,),
    )
    table.checkpoint(CheckpointOptions(**options))
    return _words(**options)


def _repair(_: random.Random, table: Table, __: State) -> str:
    table.repair_checkpoints()
    return ""


def _manifest(chance: random.Random, table: Table, _: State) -> str:
    options = _some(chance, purge_first=(True,))
    table.generate_manifest(ManifestOptions(**options))
    return _words(**options)


def _check(chance: random.Random, table: Table, state: State) -> str:
    options = _some(
        chance,
        depth=(Depth.EXISTS, Depth.FOOTERS, Depth.DATA, Depth.DATA),
        checkpoints=(True,),
        vectors=(True,),
        all_versions=(True,),
    )
    report = table.check(CheckOptions(**options))
    codes = sorted(report.count_codes())
    errors = [row for row in report.findings.to_pylist() if row["severity"] == "error"]
    known = set(FINDINGS_OF_DELTA_RS)
    is_theirs = state.writes_delta_rs
    if any(has_lossy_bounds(it.type, writes_delta_rs=is_theirs) for it in state.schema):
        known.add("STATS_BOUNDS")
    wrong = [row for row in errors if row["code"] not in known]
    if wrong:
        raise BrokenError(
            f"deltactl check: {','.join(sorted({row['code'] for row in wrong}))}",
            f"{_words(**options)}: {[(r['version'], r['file'], r['problem']) for r in wrong[:3]]}",
        )
    return f"{_words(**options)}: {codes or 'nothing'}"


def _age(chance: random.Random, _: Table, state: State) -> str:
    """Let files be older, so that retentions are over; in-commit timestamps stay."""
    days = chance.choice((1, 8, 40))
    for folder, _folders, names in os.walk(state.path):
        for name in names:
            file = Path(folder, name)
            moved = file.stat().st_mtime_ns - days * DAY_MS * 1_000_000
            os.utime(file, ns=(moved, moved))
    return f"{days} days"


def _some(chance: random.Random, **values: tuple[Any, ...]) -> dict[str, Any]:
    """Some of the options, each with one of its values."""
    return {
        name: chance.choice(choices) for name, choices in values.items() if chance.random() < 0.35
    }


def _words(**options: Any) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items() if value is not None)


_STEPS: Final[Mapping[str, Callable[[random.Random, Table, State], str]]] = {
    "optimize": _optimize,
    "vacuum": _vacuum,
    "checkpoint": _checkpoint,
    "repair-checkpoints": _repair,
    "manifest": _manifest,
    "check": _check,
    "age": _age,
}
