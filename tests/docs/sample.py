"""The tables that pages speak of, and what some pages need besides."""

import datetime as dt
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl.operations.clone.options import CloneOptions
from deltactl.operations.clone.places import CloneProgress, write_progress
from deltactl.operations.clone_notes import CloneNote, write_note
from deltactl.storage.local.store import LocalStore
from deltactl.table import Table
from tests.support.damage import true_stats
from tests.support.table_builder import Column, Row, TableBuilder, commit_path, encode_lines

_HOUR_MS = 3_600_000
_OLDEST = 300  # hours
_COLUMNS = (
    Column("id", nullable=False),
    Column("day", "date"),
    Column("kind", "string"),
    Column("amount", "double"),
)
_DAYS = [dt.date(2024, 1, day) for day in (29, 30, 31)]
_ENGINE = "Apache-Spark/4.2.0 Delta-Lake/4.4.0"


class _Timeline:
    """A table whose commits, files and folders have ages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._id = 0
        self.paths: list[str] = []
        self._seen: set[Path] = set()
        self.builder = TableBuilder(
            folder, _COLUMNS, partition_by=["day"], created_ms=_ago_ms(_OLDEST)
        )
        self._date(_OLDEST)

    def commit(self, hours: float, *actions: Any, operation: str, **info: Any) -> int:
        """A commit so many hours ago."""
        info = {"userName": "etl", "engineInfo": _ENGINE, **info}
        self.builder._now_ms = _ago_ms(hours) - 1000
        version = self.builder.commit(*actions, operation=operation, **info)
        self._date(hours)
        return version

    def load(self, hours: float, days: Sequence[dt.date], count: int = 200) -> list[str]:
        """A commit of a file a day."""
        adds = [self.write_file(day, count, hours) for day in days]
        self.commit(
            hours,
            *adds,
            operation="WRITE",
            operationParameters={"mode": "Append", "partitionBy": '["day"]'},
            operationMetrics={
                "numFiles": str(len(adds)),
                "numOutputRows": str(len(adds) * count),
                "numOutputBytes": str(sum(add["add"]["size"] for add in adds)),
            },
        )
        self.paths += [add["add"]["path"] for add in adds]
        return [add["add"]["path"] for add in adds]

    def write_file(self, day: dt.date, count: int, hours: float) -> Any:
        """Write a data file, and return its action."""
        kinds = ("view", "click", "buy")
        rows: list[Row] = [
            {"id": self._id + n, "day": day, "kind": kinds[n % 3], "amount": n / 4}
            for n in range(count)
        ]
        self._id += count
        self.builder._now_ms = _ago_ms(hours)
        return self.builder.write_file(rows, stats=true_stats(rows, ["id", "kind", "amount"]))

    def _date(self, hours: float) -> None:
        """Give what is new the time of its commit."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path not in self._seen:
                self._seen.add(path)
                _set_time(path, hours)


def _ago_ms(hours: float) -> int:
    # Half a minute more: a whole number of hours ago stays that while a test runs.
    return int(time.time() * 1000) - int(hours * _HOUR_MS) - 30_000


def _set_time(path: Path, hours: float) -> None:
    seconds = _ago_ms(hours) / 1000
    os.utime(path, (seconds, seconds))


def build_tables(root: Path) -> None:
    """``events``: 28 small files of three days, and an old delete; ``orders``: little to do."""
    _build_events(root)
    orders = _Timeline(root / "orders")
    orders.load(60, _DAYS[:1], 500)
    (root / "tables.txt").write_text("events\norders\n")


def _build_events(root: Path) -> _Timeline:
    events = _Timeline(root / "events")
    first = events.load(290, _DAYS)
    second = events.load(280, _DAYS)
    events.commit(
        250,
        *(events.builder.remove_action(path) for path in (first[0], second[0])),
        operation="DELETE",
        userName="ann",
        operationParameters={"predicate": "[\"(day = '2024-01-29')\"]"},
        operationMetrics={"numRemovedFiles": "2", "numDeletedRows": "400"},
    )
    for hours in (100, 76, 52, 50, 28, 26, 4, 3):
        events.load(hours, _DAYS)
    return events


def landing(root: Path) -> None:
    """A directory of Parquet files that is no table yet."""
    _write_landing(root, _DAYS[:2])


def late_file(root: Path) -> None:
    """A file that a program wrote into a directory after its conversion."""
    folder = root / "landing" / f"day={_DAYS[0]}"
    shutil.copy(folder / "part-0.parquet", folder / "late.parquet")


def incoming(root: Path) -> None:
    """Files of another day, in a directory of their own."""
    _write_landing(root, _DAYS[2:], 4, into="incoming")


def landing_of_hours(root: Path) -> None:
    """A directory of Parquet files that is no table yet, with a file for each six hours."""
    _write_landing(root, _DAYS[:2], 4)


def _write_landing(
    root: Path, days: Sequence[dt.date], files: int = 1, *, into: str = "landing"
) -> None:
    for number, day in enumerate(days):
        folder = root / into / f"day={day}"
        folder.mkdir(parents=True)
        rows = pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64())})
        for part in range(files):
            pq.write_table(rows, folder / f"part-{part}.parquet")


def lost_commit(root: Path) -> None:
    """``events`` without one of its commits."""
    (root / "events" / commit_path(6)).unlink()


def lost_file(root: Path) -> None:
    """``events`` without one of its live files."""
    path = next(iter(sorted((root / "events" / "day=2024-01-31").glob("*.parquet"))))
    path.unlink()


def bad_job(root: Path) -> None:
    """``events`` after a job that replaced a day by a part of its rows, two hours ago."""
    shutil.rmtree(root / "events")
    events = _build_events(root)
    day = _DAYS[2]
    live = [path for path in events.paths if f"day={day}" in path]
    events.commit(
        2,
        *(events.builder.remove_action(path) for path in live),
        events.write_file(day, 50, 2),
        operation="WRITE",
        userName="backfill",
        operationParameters={"mode": "Overwrite", "predicate": f"day = '{day}'"},
    )


def unknown_feature(root: Path) -> None:
    """``events`` with a feature that nobody knows."""
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    features = {"readerFeatures": ["sampleFeature"], "writerFeatures": ["sampleFeature"]}
    log = root / "events" / "_delta_log"
    version = len(list(log.glob("*.json")))
    action = {"protocol": {**protocol, **features}}
    (root / "events" / commit_path(version)).write_bytes(encode_lines([action]))


def half_a_copy(root: Path) -> None:
    """A deep clone of ``events`` that was killed: a third of its files is missing."""
    shutil.rmtree(root / "copy")
    events = Table(root / "events")
    events.clone(root / "copy", CloneOptions(deep=True))
    snapshot = events.snapshot()
    write_progress(
        LocalStore(str(root / "copy")),
        CloneProgress("file:/data/events", snapshot.metadata.id, snapshot.version),
    )
    shutil.rmtree(root / "copy" / "_delta_log")
    shutil.rmtree(root / "copy" / "day=2024-01-31")


def old_copy(root: Path) -> None:
    """A deep clone of an earlier version of ``events``."""
    shutil.rmtree(root / "copy")
    Table(root / "events").clone(root / "copy", CloneOptions(deep=True, version=9))


def lost_clone(root: Path) -> None:
    """A shallow clone of ``events`` that was noted, and whose directory is gone."""
    source = LocalStore(str(root / "events"))
    clone = LocalStore(str(root / "clone"))
    write_note(source, CloneNote(clone.uri, 13, _ago_ms(24)))


def settings(root: Path) -> None:
    """A file of settings in the working directory."""
    (root / "deltactl.toml").write_text('[vacuum]\nretain = "30d"\n')


def fresh(root: Path) -> None:
    """All tables as at first."""
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    build_tables(root)


_SETUPS = (
    bad_job, fresh, landing, half_a_copy, incoming, landing_of_hours, late_file, lost_clone,
    lost_commit, lost_file, old_copy, settings, unknown_feature,
)  # fmt: skip
SETUPS: Final[dict[str, Callable[[Path], None]]] = {
    function.__name__.replace("_", " "): function for function in _SETUPS
}


def prepare(names: str | None, root: Path) -> None:
    """Do what a comment on a page asks for."""
    for name in names.split(", ") if names else ():
        if name not in SETUPS:
            raise ValueError(f"there is no setup {name!r}: {', '.join(SETUPS)}")
        SETUPS[name](root)
