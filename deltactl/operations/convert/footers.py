"""Read every footer of a directory once, in parallel on an engine; find columns to omit."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from deltactl.engine.base import Task
from deltactl.errors import InterruptedRunError
from deltactl.operations.convert.directory import LeftOut
from deltactl.operations.convert.options import ConvertOptions
from deltactl.operations.convert.schema import Partitioning, Problem, find_partition_names
from deltactl.operations.convert.tasks import (
    FooterBatch,
    FooterGroup,
    FooterSpec,
    is_hidden_column,
    read_footers,
)
from deltactl.operations.run_context import RunContext
from deltactl.protocol.actions import Metadata
from deltactl.protocol.arrow_schemas import arrow_type
from deltactl.protocol.internal_columns import CHANGE_TYPE
from deltactl.protocol.new_tables import PLAIN
from deltactl.protocol.partition_texts import text_parser
from deltactl.protocol.properties import TableProperties
from deltactl.protocol.schema import DeltaType, StructType, encode_schema, is_void
from deltactl.protocol.stats import FieldPath
from deltactl.protocol.stats_columns import choose_stats_columns, list_leaves
from deltactl.protocol.stats_encoding import encode_bounds

# Large enough for the cost of a task, small enough that a short run uses all workers.
_FILES_A_TASK: Final = 512
_BYTES_A_FOOTER: Final = 64 << 10


@dataclass(slots=True)
class Footers:
    """The contents of all footers; groups in the order of their first files."""

    groups: list[FooterGroup] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    def take(self, batch: FooterBatch) -> None:
        """Add a batch."""
        self.groups += batch.groups
        self.problems += batch.problems
        self.left_out += batch.left_out

    @property
    def names(self) -> list[str]:
        """Return the data files, sorted."""
        return sorted(name for group in self.groups for name in group.files["path"].to_pylist())


def read_all_footers(
    names: Sequence[str],
    options: ConvertOptions,
    properties: TableProperties,
    spec: FooterSpec,
    context: RunContext,
) -> Footers:
    """Read the footers of ``names``.

    The first one decides which statistics are needed, so that statistics of a thousand columns of a
    wide table are not kept in memory.

    Raises:
        InterruptedRunError: ``cancel`` was set.
    """
    footers = Footers()
    done = 0
    while done < len(names) and not footers.groups:
        footers.take(read_footers(spec, names[done : done + 1], 0))
        done += 1
    first = next(iter(footers.groups), None)
    if first is not None and not first.schema.unusable:  # else there will be no table
        partitions = find_partition_names(names[done - 1], options.partition_by)
        spec = replace(spec, skip=_unwanted(first.schema.struct, partitions, properties))
    batches = [names[at : at + _FILES_A_TASK] for at in range(done, len(names), _FILES_A_TASK)]
    tasks = [
        Task(number, tuple(batch), weight_bytes=_BYTES_A_FOOTER * len(batch))
        for number, batch in enumerate(batches)
    ]
    found = dict(context.results(partial(read_footers, spec), tasks))
    if context.is_cancelled:
        raise InterruptedRunError("interrupted", hint="Rerun the command; nothing was changed.")
    for number in sorted(found):  # independent of the order in which tasks ended
        footers.take(found[number])
    return footers


def _unwanted(
    struct: StructType, partitions: frozenset[str], properties: TableProperties
) -> frozenset[FieldPath]:
    """Return the leaves of the first file for which the table keeps no statistics."""
    stored = tuple(
        f
        for f in struct.fields
        if f.name.lower() not in partitions
        and not is_void(f.type)
        and not is_hidden_column(f, has_values=False)
    )
    kept = StructType(stored)
    metadata = Metadata("", encode_schema(kept), configuration=properties.configuration)
    wanted = {leaf.path for leaf in choose_stats_columns(metadata, PLAIN).leaves}
    return frozenset(leaf.path for leaf in list_leaves(kept) if leaf.path not in wanted)


def find_hidden(struct: StructType, footers: Footers, options: ConvertOptions) -> frozenset[str]:
    """Return the internal columns of Delta in the files; partition columns are never internal."""
    names = footers.names[:1]
    partitions = frozenset().union(*(find_partition_names(n, options.partition_by) for n in names))
    alone = struct.find(CHANGE_TYPE) is None
    marked = alone or any(_has_change_types(group) for group in footers.groups)
    return frozenset(
        f.name
        for f in struct.fields
        if f.name.lower() not in partitions and is_hidden_column(f, has_values=marked)
    )


def _has_change_types(group: FooterGroup) -> bool:
    """Return whether a file may have a value in Delta's column for change data."""
    leaf = group.leaves.get((CHANGE_TYPE,))
    return leaf is not None and leaf.nulls.to_pylist() != group.files["num_rows"].to_pylist()


def count_other_values(
    column: str, footers: Footers, partitioning: Partitioning, string_prefix: int
) -> int:
    """Return how many files have other values of a partition column than their directories.

    The bounds in the footers tell this: files without bounds are not counted.
    """
    count = 0
    for group in footers.groups:
        stored = group.schema.struct.find(column)
        found = None if stored is None else group.leaves.get((stored.name,))
        if stored is None or found is None or found.lower is None or found.upper is None:
            continue
        (leaf,) = list_leaves(StructType((stored,)))
        if leaf.kind == "float":  # a text may have other digits than the stored value
            continue
        texts = [partitioning.of(path)[column] for path in group.files["path"].to_pylist()]
        known = {text: _parse_text(text, stored.type) for text in set(texts)}
        values = [known[text] for text in texts]
        lower, upper = (
            encode_bounds(values, leaf.kind, string_prefix, upper=upper) for upper in (False, True)
        )
        bounds = zip(found.lower.to_pylist(), found.upper.to_pylist(), strict=True)
        pairs = zip(bounds, zip(lower, upper, strict=True), strict=True)
        count += sum(None not in stated and stated != wanted for stated, wanted in pairs)
    return count


def _parse_text(text: str | None, kind: DeltaType) -> object:
    """Return a partition value as a value of a type; ``None`` if it is null, or not valid."""
    parse = text_parser(arrow_type(kind))
    with suppress(ValueError, ArithmeticError):
        return text if text is None or parse is None else parse(text)
    return None


def note_hidden(names: Collection[str]) -> list[str]:
    """Return the warnings about hidden columns."""
    if not names:
        return []
    return [
        f"{', '.join(sorted(names))}: left out, because Delta wrote these columns for internal use "
        "when the files belonged to a table"
    ]
