"""Carry a history out: each step, then all readers."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from deltactl import DeltactlError, Table, TableError
from deltactl.errors import ignore_warning
from tests.histories import convert_steps, delta_rs_steps, our_steps, spark_steps
from tests.histories.facts import count_changes
from tests.histories.plan import CONVERT, DELTA_RS, OURS, SPARK, History, Step
from tests.histories.probes import ask, random_probe
from tests.histories.readers import Reading, read_all, read_ours, schema_of, texts_of
from tests.histories.rows import make_pools
from tests.histories.state import BrokenError, RefusedError, State

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltactl import Snapshot

Readings = Mapping[str, Reading]


@dataclass
class Tally:
    """How much was done; refusals and readers that were left out, by reason."""

    histories: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    comparisons: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0

    def add(self, other: Tally) -> None:
        """Add the figures of another."""
        self.histories += other.histories
        self.steps += other.steps
        self.refused += other.refused
        self.comparisons += other.comparisons
        self.left_out += other.left_out
        self.unchanged += other.unchanged


@dataclass(frozen=True)
class Failure:
    """What must not be; ``kind`` is the same for failures that look alike."""

    kind: str
    detail: str
    step: int


@dataclass
class Outcome:
    """What came of a history: lines that tell it, and the failure that ended it, if any."""

    history: History
    lines: list[str] = field(default_factory=list)
    failure: Failure | None = None
    tally: Tally = field(default_factory=Tally)
    kept: Path | None = None


def run_history(
    history: History, spark: SparkSession | None, *, folder: Path | None = None, keep: bool = False
) -> Outcome:
    """Carry a history out on a table of its own, which is removed afterwards."""
    scratch = Path(tempfile.mkdtemp(prefix="history-", dir=folder))
    path = scratch / history.root
    run = _Run(history, path, spark)
    try:
        run.go()
    finally:
        if spark is not None:
            spark_steps.forget_tables(spark)
        if keep and run.outcome.failure:
            run.outcome.kept = path
        else:
            shutil.rmtree(scratch)
    return run.outcome


class _Run:
    def __init__(self, history: History, path: Path, spark: SparkSession | None) -> None:
        self._path = path
        self._spark = spark
        self.outcome = Outcome(history)
        self._readings: Readings = {}
        self._state: State | None = None
        self._files: set[tuple[str, int, int]] = set()
        self._versions: dict[int, tuple[str, ...]] = {}

    def go(self) -> None:
        history = self.outcome.history
        self.outcome.tally.histories = 1
        self.outcome.lines.append(f" 0. {history.describe()}")
        try:
            self._create(history)
            self._look(None)
            for step in history.steps:
                self._take(step)
                self._look(step)
        except RefusedError as error:  # of the table: no step lets one pass
            self._refused("create", history.creator, error)
        except BrokenError as error:
            number = len(self.outcome.lines) - 1
            self.outcome.failure = Failure(error.kind, str(error), number)

    def _create(self, history: History) -> None:
        try:
            if history.creator == CONVERT:
                with our_steps.judged("convert"):
                    convert_steps.create(history, self._path)
            elif history.creator == SPARK:
                assert self._spark is not None
                spark_steps.create(self._spark, history, self._path)
            else:
                delta_rs_steps.create(history, str(self._path))
        except (KeyboardInterrupt, SystemExit, RefusedError, BrokenError):
            raise
        except BaseException as error:  # panics of Rust are no Exceptions
            raise RefusedError(f"{type(error).__name__}: {str(error)[:200]}") from error

    def _take(self, step: Step) -> None:
        chance, state = random.Random(step.seed), self._state
        assert state is not None
        self.outcome.tally.steps[f"{step.actor} {step.kind}"] += 1
        head = f"{step.number:2}. {step.actor} {step.kind}"
        self.outcome.lines.append(head)
        try:
            if step.actor == OURS:
                said = our_steps.take_step(step.kind, chance, state)
            elif step.actor == DELTA_RS:
                said = delta_rs_steps.take_step(step.kind, chance, step.number, state)
            else:
                assert self._spark is not None
                said = spark_steps.take_step(self._spark, step.kind, chance, step.number, state)
        except RefusedError as error:
            self._refused(step.kind, step.actor, error)
            self.outcome.lines[-1] = f"{head}: refused: {error}"
        else:
            self.outcome.lines[-1] = f"{head} {said}"

    def _refused(self, kind: str, actor: str, error: RefusedError) -> None:
        self.outcome.tally.refused[f"{actor} {kind}: {shorten(str(error))}"] += 1

    def _look(self, step: Step | None) -> None:
        files = self._list_files()
        if files == self._files:  # as it was: so is what readers read
            self.outcome.tally.unchanged += 1
            return
        after = f"after {step.actor} {step.kind}" if step else "after create"
        try:
            snapshot = Table(str(self._path), warn=ignore_warning).snapshot()
            rows = read_ours(self._path)
        except DeltactlError as error:
            raise BrokenError(f"our scan: {error.code} {after}", error.message) from error
        before, self._files = self._state, files
        self._state = state = _state_of(self.outcome.history, self._path, snapshot, rows)
        tracked = snapshot.metadata.configuration.get("delta.enableRowTracking") == "true"
        found = read_all(
            self._path,
            rows,
            state.partition_by,
            self._spark,
            is_mapped=state.is_mapped,
            row_ids=tracked,
        )
        problems = [
            *self._compare(found, step, after),
            *self._compare_schema(found, rows, after),
            *self._compare_versions(step, before, after),
            *self._probe(step, after),
            *self._compare_feed(step, before, after),
        ]
        self._readings = found
        self._versions[state.version] = found[OURS].rows or ()
        if problems:
            detail = "\n    ".join(f"{kind}: {text}" for kind, text in problems)
            raise BrokenError(problems[0][0], detail)

    def _list_files(self) -> set[tuple[str, int, int]]:
        """Names, sizes and times of all files of the table."""
        return {
            (str(file), (stat := file.stat()).st_size, stat.st_mtime_ns)
            for file in self._path.rglob("*")
            if file.is_file()
        }

    def _compare(self, found: Readings, step: Step | None, after: str) -> Iterator[tuple[str, str]]:
        tally = self.outcome.tally
        is_ours = step is not None and step.actor == OURS
        for name, reading in found.items():
            before = self._readings.get(name)
            if reading.rows is None:
                tally.left_out[f"{name} {after}: {shorten(reading.why)}"] += 1
            if is_ours and before is not None and before.rows is not None:
                tally.comparisons[f"{name} before and {after}"] += 1
                if reading.rows is None:
                    yield f"{name} cannot read {after}", reading.why
                elif reading.rows != before.rows:
                    yield f"{name} reads other rows {after}", difference(before.rows, reading.rows)
        for name, reading in found.items():
            if reading.rows is not None and reading.expected is not None:
                tally.comparisons[f"{name} and our scan"] += 1
                if reading.rows != reading.expected:
                    text = difference(reading.rows, reading.expected)
                    yield f"{name} and our scan differ {after}", text

    def _compare_schema(
        self, found: Readings, rows: pa.Table, after: str
    ) -> Iterator[tuple[str, str]]:
        spark = found.get("Spark")
        if spark and spark.schema not in (None, schema_of(rows)):
            yield f"schemas differ {after}", f"Spark {spark.schema}, ours {schema_of(rows)}"

    def _compare_versions(
        self, step: Step | None, before: State | None, after: str
    ) -> Iterator[tuple[str, str]]:
        """A version of the past, read by us, is what it was; files that are gone are no matter."""
        versions = [v for v in self._versions if before is not None and v <= before.version]
        if step is None or not versions:
            return
        version = random.Random(step.seed).choice(versions)
        try:
            rows = read_ours(self._path, version)
        except TableError as error:
            self.outcome.tally.left_out[f"our scan of an older version: {error.code}"] += 1
            return
        texts = texts_of(rows)
        self.outcome.tally.comparisons["an older version, by our scan"] += 1
        if texts != self._versions[version]:
            text = difference(self._versions[version], texts)
            yield f"our scan of an older version {after}", f"version {version}: {text}"

    def _compare_feed(
        self, step: Step | None, before: State | None, after: str
    ) -> Iterator[tuple[str, str]]:
        """Commits of ours have no changes for readers of the change data feed."""
        state, is_ours = self._state, step is not None and step.actor == OURS
        assert state is not None
        if not is_ours or before is None or state.version == before.version or not state.has_feed:
            return
        try:
            for name, count in count_changes(
                self._path, before.version + 1, state.version, self._spark
            ):
                self.outcome.tally.comparisons[f"change data feed by {name}"] += 1
                if count:
                    yield f"change data feed by {name} {after}", f"{count} changes"
        except (KeyboardInterrupt, SystemExit, BrokenError):
            raise
        except BaseException as error:  # panics of Rust are no Exceptions
            self.outcome.tally.left_out[f"change data feed: {shorten(str(error))}"] += 1

    def _probe(self, step: Step | None, after: str) -> Iterator[tuple[str, str]]:
        """What readers find by a condition."""
        assert self._state is not None
        probe = None if step is None else random_probe(random.Random(step.seed), self._state)
        if probe is None:
            return
        is_ours = step is not None and step.actor == OURS
        for name, count, asked in ask(probe, self._state, self._spark if is_ours else None):
            if count is None:
                self.outcome.tally.left_out[f"{name} by a condition: {shorten(asked)}"] += 1
                continue
            self.outcome.tally.comparisons[f"{name} by a condition"] += 1
            if count != probe.expected:
                yield f"{name} by a condition {after}", f"{count} of {probe.expected} rows: {asked}"


def _state_of(history: History, path: Path, snapshot: Snapshot, rows: pa.Table) -> State:
    metadata = snapshot.metadata
    partition_by = tuple(metadata.partition_columns)
    return State(
        path,
        snapshot.version,
        rows,
        partition_by,
        metadata.column_mapping_mode != "none",
        metadata.configuration.get("delta.enableChangeDataFeed") == "true",
        history.writers != SPARK,
        make_pools(history.seed, rows.schema, partition_by),
    )


def difference(expected: tuple[str, ...], found: tuple[str, ...]) -> str:
    """One text about two lists of rows."""
    counted, seen = Counter(expected), Counter(found)
    lacking, extra = list((counted - seen).elements()), list((seen - counted).elements())
    return (
        f"{len(found)} rows for {len(expected)}; {len(lacking)} lacking, such as {lacking[:2]}; "
        f"{len(extra)} too many, such as {extra[:2]}"
    )


def shorten(text: str) -> str:
    """A reason without what is another one each time."""
    text = re.sub(r"(file:)?/[^\s'\",]*", "PATH", text)
    return re.sub(r"[0-9a-f-]{30,}|\d+", "N", text)[:160]
