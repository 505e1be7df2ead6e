"""Decide for each row group of an input whether it is copied or encoded."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltactl.errors import DataFileError
from deltactl.operations.optimize.rewrite_counts import RewriteCounts
from deltactl.operations.optimize.undecoded import UndecodedColumns
from deltactl.parquet.data_file import DataFile, iter_data_files
from deltactl.parquet.footer_bytes import parse_footer
from deltactl.parquet.open_files import ensure_readable_path, naming_file, read_deletion_vector
from deltactl.parquet.splice.copy_conditions import (
    CopyRefusal,
    GroupChoice,
    OutputSchema,
    choose_columns,
    chunks_of,
    codec_of,
)
from deltactl.parquet.splice.float_bounds import find_sampled
from deltactl.parquet.splice.source import (
    Group,
    LeafCopy,
    ReadRanges,
    Source,
    prepare_leaves,
    read_source,
)
from deltactl.parquet.splice.writer import ROOM_FOR_ROW_GROUPS
from deltactl.parquet.thrift import encode
from deltactl.protocol.deletion_vectors import ensure_within
from deltactl.storage.parallel import each_in_parallel, map_requests
from deltactl.storage.store import Store

MAX_FOOTERS: Final = 256
"""Maximum number of footers that a dry run reads."""
_FOOTERS_AHEAD: Final = 4


@dataclass(frozen=True, slots=True)
class CopyRule:
    """The rule for copies: a row group has at least ``min_bytes`` of compressed pages.

    ``only_copies``: whether no row group may be decoded, because ``undecoded`` columns are copied.
    """

    target: OutputSchema
    min_bytes: int
    undecoded: UndecodedColumns = UndecodedColumns()
    only_copies: bool = False

    def may_copy(self, file: DataFile) -> bool:
        """Return whether a file is large enough to have a row group that is copied."""
        return file.size_bytes >= self.min_bytes

    def of_file(self, source: Source) -> CopyRule:
        """Return the rule for files that store columns that are not decoded in this way.

        Raises:
            DataFileError: see ``UndecodedColumns.find``.
        """
        found = self.undecoded.find(source)
        names = {column.name for column in found}
        decoded = [column for column in self.target.columns if column.name not in names]
        target = replace(self.target, columns=decoded, undecoded=found)
        return replace(self, target=target, min_bytes=0, only_copies=True)

    @property
    def shape(self) -> bytes:
        """Return how the columns that are not decoded are stored."""
        columns = self.target.undecoded
        return b"".join(encode(element) for column in columns for element in column.elements)

    def find_refusal(self, choice: GroupChoice) -> CopyRefusal | None:
        """Return why a column that is not decoded cannot be copied, or ``None``."""
        reasons = (choice.encoded.get(column.name) for column in self.target.undecoded)
        return next((reason for reason in reasons if reason is not None), None)

    def has_other_codec(self, source: Source, group: Group) -> bool:
        """Return whether a column that is not decoded has another codec than the output."""
        codec = self.target.codec
        return codec is not None and any(
            codec_of(chunk) != codec
            for column in self.target.undecoded
            for chunk in chunks_of(group, source.columns[column.name])
        )

    def ensure_copied(self, source: Source, steps: Sequence[Step]) -> None:
        """Raise an error if a step would decode or omit a column that is not decoded.

        Raises:
            DataFileError: a row group cannot be copied.
        """
        if not self.only_copies:
            return
        same = self.of_file(source).shape == self.shape
        if not same or any(
            isinstance(step, Encode)
            or (isinstance(step, Copy) and self.find_refusal(step.choice) is not None)
            for step in steps
        ):
            raise DataFileError(
                f"the row groups of {source.name!r} cannot be copied as they are, and "
                f"{self.undecoded.explain()}"
            )


@dataclass(frozen=True, slots=True)
class Encode:
    """Consecutive row groups to encode; ``None`` stands for all of the file."""

    groups: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Copy:
    """A row group to copy, of which the columns of ``choice.encoded`` are encoded.

    ``sampled``: copied columns whose rows must be read for the statistics.
    """

    source: Source
    group: Group
    choice: GroupChoice
    leaves: Sequence[LeafCopy]
    sampled: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A row group to encode as a whole."""

    reasons: Sequence[CopyRefusal]


@dataclass(frozen=True, slots=True)
class Skip:
    """Row groups without live rows."""

    num_rows: int


Step = Encode | Copy | Skip


def plan_steps(
    store: Store,
    rule: CopyRule,
    source: Source,
    deleted: BitMap64 | None,
    *,
    counts: RewriteCounts,
    is_local: bool,
    room: int,
) -> list[Step]:
    """Return the steps for a file, in the order of its rows, and count them.

    ``deleted`` are the deleted rows of the file; ``counts`` are increased. If ``is_local``, reading
    single page headers is cheap: all are checked. ``room`` is how many row groups may be copied.
    """
    if deleted is not None:
        ensure_within(deleted, source.metadata.num_rows, source.name)
    steps: list[Step] = []
    read_ranges = partial(store.read_ranges, source.name)
    for group in source.groups:
        found = classify(rule, source, group, deleted, room=room)
        step = (
            _prepare(source, group, found, rule.target, read_ranges, walk=is_local)
            if isinstance(found, GroupChoice)
            else found
        )
        # Rows that are encoded between two copies become a row group too.
        continues = isinstance(step, Refusal) and bool(steps) and isinstance(steps[-1], Encode)
        room -= not isinstance(step, Skip) and not continues
        steps.append(_count(step, group, counts, rule))
    rule.ensure_copied(source, steps)
    return list(_join(steps))


def open_sources(
    store: Store, rule: CopyRule | None, files: Sequence[DataFile]
) -> Generator[Source | DataFileError | None, None, None]:
    """Yield each file as a source; ``None`` if it is too small, an error if it is not valid.

    On object stores, the footers of the next few files are requested in advance.
    """

    def work(file: DataFile) -> Source | DataFileError | None:
        if rule is None or not rule.may_copy(file):
            return None
        try:
            return open_source(store, file)
        except DataFileError as error:
            return error

    yield from map_requests(store, work, files, at_once=_FOOTERS_AHEAD)


def forecast(store: Store, rule: CopyRule, files: pa.Table) -> RewriteCounts:
    """Return the counts of a run, from the footers of files that are large enough to be copied.

    A smaller file counts as one row group: its footer is not read. If more than ``MAX_FOOTERS``
    files are large enough, the footers of so many of them are read, at equal distances in the
    plan, and the counts are an estimate.
    """
    counts = RewriteCounts()
    sizes = pc.fill_null(files["size_bytes"], 0)
    is_large = pc.greater_equal(sizes, rule.min_bytes)
    small = sizes.filter(pc.invert(is_large))
    if len(small):
        counts.encode(len(small), pc.sum(small).as_py(), [CopyRefusal.SMALL])
    large = files.filter(is_large)
    chosen = spread_files(large, MAX_FOOTERS)
    found = RewriteCounts()
    for one in each_in_parallel(
        lambda file: _forecast_file(store, rule, file), iter_data_files(chosen)
    ):
        found.add(one)
    if chosen.num_rows < large.num_rows:
        found = found.scale(large.num_rows / chosen.num_rows)
        counts.estimated_from = chosen.num_rows
    counts.add(found)
    return counts


def spread_files(files: pa.Table, at_most: int) -> pa.Table:
    """Return all files, or ``at_most`` of them at equal distances, with the first and the last."""
    count = min(files.num_rows, at_most)
    rows = np.linspace(0, files.num_rows - 1, count).round().astype(np.int64)
    return files.take(pa.array(rows))


def _forecast_file(store: Store, rule: CopyRule, file: DataFile) -> RewriteCounts:
    counts = RewriteCounts()
    try:
        source = open_source(store, file)
        rule = rule.of_file(source) if rule.only_copies else rule
        deleted = read_deletion_vector(store, file)
    except DataFileError:
        counts.encode(1, file.size_bytes, [CopyRefusal.INVALID])
        return counts
    for group in source.groups:
        found = classify(rule, source, group, deleted, room=ROOM_FOR_ROW_GROUPS)
        step = Copy(source, group, found, ()) if isinstance(found, GroupChoice) else found
        _count(step, group, counts, rule)
    return counts


def open_source(store: Store, file: DataFile) -> Source:
    """Return a file as a source of copies.

    Raises:
        DataFileError: the footer is not valid, or not one whose row groups can be copied.
    """
    ensure_readable_path(file.path)
    with naming_file(file.path):
        footer = parse_footer(store, file.path, file.size_bytes)
        return read_source(file.path, footer)


def classify(
    rule: CopyRule, source: Source, group: Group, deleted: BitMap64 | None, *, room: int
) -> GroupChoice | Refusal | Skip:
    """Decide about a row group by footer and deletion vector."""
    end = group.first_row + group.num_rows
    hit = 0 if deleted is None else deleted.range_cardinality(group.first_row, end)
    if hit == group.num_rows:
        return Skip(group.num_rows)
    if hit:
        return Refusal((CopyRefusal.DELETED,))
    if group.compressed_bytes < rule.min_bytes:
        return Refusal((CopyRefusal.SMALL,))
    if room <= 0:
        return Refusal((CopyRefusal.TOO_MANY,))
    choice = choose_columns(source, group, rule.target)
    return choice if choice.copied else Refusal(tuple(choice.encoded.values()))


def _prepare(
    source: Source,
    group: Group,
    choice: GroupChoice,
    target: OutputSchema,
    read_ranges: ReadRanges,
    *,
    walk: bool,
) -> Copy | Refusal:
    """Read and check the metadata that a copy needs in addition to the pages."""
    try:
        leaves = prepare_leaves(source, group, choice.copied, read_ranges, walk=walk)
    except DataFileError:
        return Refusal((CopyRefusal.INVALID,))
    return Copy(source, group, choice, leaves, find_sampled(source, group, choice, target))


def _count(
    step: Copy | Refusal | Skip, group: Group, counts: RewriteCounts, rule: CopyRule
) -> Step:
    match step:
        case Copy():
            columns = [step.source.columns[name] for name in step.choice.copied]
            copied = sum(
                span.length
                for column in columns
                for span in group.spans[column.first_leaf :][: len(column.leaves)]
            )
            counts.copy(group, copied, step.choice)
            counts.copied_because.update([rule.undecoded.explain()] if rule.only_copies else [])
            return step
        case Refusal():
            counts.encode(1, group.compressed_bytes, step.reasons)
            return Encode([group.index])
        case Skip():
            if step.num_rows:
                counts.encode(1, group.compressed_bytes, [CopyRefusal.DELETED])
            return step


def _join(steps: Iterable[Step]) -> Iterator[Step]:
    """Join adjacent row groups that are encoded, so that they are read at once."""
    run: list[int] = []
    for step in steps:
        if isinstance(step, Encode):
            run += step.groups or ()
            continue
        if run:
            yield Encode(run)
            run = []
        yield step
    if run:
        yield Encode(run)
