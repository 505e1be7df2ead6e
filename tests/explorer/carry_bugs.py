"""Seed bugs in the code that applies the deletes of other writers to outputs."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from deltactl.log.replay import Tail
from deltactl.log.writing import concurrent_deletes
from deltactl.log.writing.concurrent_deletes import Bin, ConcurrentCommits, VectorWriter, Verdict
from tests.explorer.bug import Bug


def _forget_the_vector_read() -> AbstractContextManager[object]:
    shift = concurrent_deletes.shift_positions

    def unranked(old: BitMap64, new: BitMap64, first_row: int) -> BitMap64:
        return shift(BitMap64(), new - old, first_row)

    return patch.object(concurrent_deletes, "shift_positions", unranked)


def _start_a_row_late() -> AbstractContextManager[object]:
    span = concurrent_deletes._Carried._span

    def late(self: Any, row: int) -> tuple[int, int]:
        start, end = span(self, row)
        return (start + 1, end + 1) if row else (start, end)

    return patch.object(concurrent_deletes._Carried, "_span", late)


def _forget_earlier_vectors() -> AbstractContextManager[object]:
    """Apply only the deletes of the last lost attempt."""
    rebase = ConcurrentCommits.rebase

    def forgetful(self: Any, tail: Tail) -> None:
        self._adds, self._removes = self._adds.slice(0, 0), self._removes.slice(0, 0)
        self._index()
        rebase(self, tail)

    return patch.object(ConcurrentCommits, "rebase", forgetful)


def _remove_old_identities() -> AbstractContextManager[object]:
    judge = ConcurrentCommits.judge

    def old(self: Any, bins: Sequence[Bin], *rest: Any, **options: Any) -> list[Verdict]:
        return [
            verdict if verdict.bin is None else _with_inputs_of(bin_, verdict.bin, verdict)
            for bin_, verdict in zip(bins, judge(self, bins, *rest, **options), strict=True)
        ]

    return patch.object(ConcurrentCommits, "judge", old)


def _with_inputs_of(read: Bin, now: Bin, verdict: Verdict) -> Verdict:
    still = pc.is_in(read.removed["path"], value_set=now.removed["path"])
    removed: pa.Table = read.removed.filter(still)
    return replace(verdict, bin=replace(now, removed=removed))


def _keep_vectors_of_lost_attempts() -> AbstractContextManager[object]:
    return patch.object(VectorWriter, "discard", lambda self, files=(): [])


CARRY_BUGS: Sequence[Bug] = (
    Bug("output positions that count rows deleted before the run", _forget_the_vector_read,
        "optimize with vectors against deletion vector", "ConsistentRead"),
    Bug("output positions of the second input off by one", _start_a_row_late,
        "optimize with vectors against deletion vector of the next file", "ConsistentRead"),
    Bug("deletion vector of an earlier commit lost on the second retry", _forget_earlier_vectors,
        "optimize with vectors against two winners", "ConsistentRead"),
    Bug("input removed with its old deletion vector", _remove_old_identities,
        "optimize with vectors against deletion vector of the next file", "ConsistentRead"),
    Bug("deletion vector of a failed attempt not removed", _keep_vectors_of_lost_attempts,
        "optimize with vectors against two winners", "no program leaves files behind"),
)  # fmt: skip
