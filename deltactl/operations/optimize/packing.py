"""Which small files become one: bins over weights, for the candidates of one partition.

Knows no files, only numbers; they are called bytes here.

**Drivers and fillers.** Bins exist for the sake of *drivers*: files never rewritten for this target
of which ``min_input_files`` fit it (so of half the target at most), and files that must be
rewritten (*forced*). *Settled* files, outputs of earlier runs, are *fillers*: they complete bins
where that is worth it, but never make one. A file of more than half the target that was never
rewritten is left alone: what fits the target beside it is smaller than it.

**Drivers are packed in order**, next-fit. A bin closes when the next file does not fit the target,
unless the bin is lighter than ``min_bytes`` (its output would be a candidate again) or its largest
input outweighs the others: then it takes that file as well. So all bins but the last are worth it
and done with, at 1.5 targets at most (1.75 with forced files over half the target). What remains
at the end is a bin of its own, or joins its neighbour.

**All drivers or none.** If a bin is made then all drivers are in bins, except *dominant* ones:
those that outweigh all lighter drivers and all settled and forced files of the partition together.

**Therefore it converges**: the plan after an executed plan is empty, however much the outputs
shrank, each by its own factor, and wherever they come to stand. If no bin was made, nothing has
changed. Else the drivers left are the dominant ones of the first plan. Every output is settled and
weighs no more than its inputs, so what a driver has to outweigh has not grown: each is dominant
again. No driver remains, and without drivers there is no bin.

**It does not churn**: a byte is written once as part of a driver. Each further time it is part of a
filler, in a bin whose largest input is at most the sum of the others: its file (before compression)
at least doubles, which happens log2(target / first output) times at most.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PackingRule:
    """What a good file is.

    Attributes:
        target_bytes: the weight aimed at.
        min_bytes: candidates are lighter than this, so an output that reaches it is done with.
        min_input_files: bins have at least so many inputs, unless they hold a forced file or are
            the remainder of a partition that is rewritten anyway.
    """

    target_bytes: int
    min_bytes: int
    min_input_files: int = 2

    def __post_init__(self) -> None:
        if self.target_bytes < 1:
            raise ValueError(f"a target of {self.target_bytes} bytes")

    @property
    def done_bytes(self) -> int:
        """Bins of this weight need no more inputs."""
        return min(self.min_bytes, self.target_bytes)

    @property
    def fewest(self) -> int:
        """The least inputs of a bin."""
        return max(2, self.min_input_files)


def pack(weights: Numbers, settled: Flags, forced: Flags, rule: PackingRule) -> list[Numbers]:
    """Bins of one partition, as ascending indices; ordered by their first index.

    Args:
        weights: of the candidates in the order of ingestion; negative ones count as zero.
        settled: outputs that an earlier run made for this very target.
        forced: to be rewritten in any case, even alone; any weight.
        rule: what a good file is.
    """
    packer = _Packer(np.maximum(weights, 0).tolist(), forced.tolist(), rule)
    # A forced file that is large enough already stays one file.
    alone, share = rule.target_bytes * 3 // 4, rule.target_bytes // rule.fewest
    heavy: list[int] = []
    drivers: list[int] = []
    fillers: list[int] = []
    files = zip(packer.weights, settled.tolist(), packer.forced, strict=True)
    for index, (weight, is_settled, is_forced) in enumerate(files):
        if is_forced:
            (heavy if weight > alone else drivers).append(index)
        elif is_settled:
            fillers.append(index)
        elif weight <= share:
            drivers.append(index)
    bins = packer.pack_drivers(drivers, fillers, heavy)
    if fillers or heavy:  # else they are in order as they are
        bins = sorted(map(sorted, bins))
    return [np.array(indices, np.int64) for indices in bins]


@dataclass(frozen=True, slots=True)
class _Packer:
    """The files of one partition and the rule.

    Lists, not arrays: bins are made one file after another, and most partitions are small.
    """

    weights: list[int]
    forced: list[bool]
    rule: PackingRule

    def pack_drivers(
        self, drivers: list[int], fillers: list[int], heavy: list[int]
    ) -> list[list[int]]:
        """All bins: ``heavy`` files are one each, whatever the others are."""
        alone = [[index] for index in heavy]
        drivers = self._without_dominant(drivers, self._weigh(fillers) + self._weigh(heavy))
        if not drivers:
            return alone
        fillers = sorted(fillers, key=self.weights.__getitem__)
        chunks = self._chunk(fillers, self._weigh(drivers))
        bins, rest = self._cut(drivers, chunks)
        if fillers:
            used = {index for chunk in chunks[: len(bins)] for index in chunk}
            rest = self._fill(rest, [index for index in fillers if index not in used])
        if self._is_worth_it(rest):
            return alone + bins[:-1] + self._even_out(bins[-1:], rest)
        if bins:
            return alone + bins[:-1] + self._join(rest, bins[-1])
        if alone:
            # The remainder must not be left: there are bins already.
            alone.sort(key=self._weigh, reverse=True)
            return alone[:-1] + self._join(rest, alone[-1])
        return [rest] if self._holds_worthy(rest) else []

    def _weigh(self, indices: Iterable[int]) -> int:
        return sum(map(self.weights.__getitem__, indices))

    def _largest(self, indices: Iterable[int]) -> int:
        """The weight of the heaviest that need not be rewritten anyway."""
        return max((self.weights[i] for i in indices if not self.forced[i]), default=0)

    def _is_worth_it(self, indices: list[int]) -> bool:
        if any(map(self.forced.__getitem__, indices)):
            return True
        enough = len(indices) >= self.rule.fewest
        return enough and 2 * self._largest(indices) <= self._weigh(indices)

    def _holds_worthy(self, indices: list[int]) -> bool:
        """Whether leaving out the largest ones gives a bin that is worth it."""
        lighter = 0
        for count, weight in enumerate(sorted(map(self.weights.__getitem__, indices)), 1):
            if count >= self.rule.fewest and weight <= lighter:
                return True
            lighter += weight
        return False

    def _without_dominant(self, drivers: list[int], others: int) -> list[int]:
        """``drivers`` less those that outweigh all lighter ones and ``others`` together."""
        total = self._weigh(drivers) + others
        while 2 * (largest := self._largest(drivers)) > total:  # each round halves the total
            drivers = [i for i in drivers if self.weights[i] < largest or self.forced[i]]
            total -= largest
        return drivers

    def _chunk(self, fillers: list[int], drivers_bytes: int) -> list[list[int]]:
        """What bins start with where there are several: half a target of fillers each.

        The lightest fillers, as many as the drivers outweigh, each chunk from one neighbourhood.
        """
        half = self.rule.target_bytes // 2
        if drivers_bytes <= self.rule.target_bytes:
            return []
        taken, weight = [], 0
        for index in fillers:
            weight += self.weights[index]
            if weight > drivers_bytes or self.weights[index] > half:
                break
            taken.append(index)
        chunks: list[list[int]] = []
        weight = half
        for index in sorted(taken):
            weight += self.weights[index]
            if weight > half or not chunks:
                chunks.append([])
                weight = self.weights[index]
            chunks[-1].append(index)
        return chunks

    def _cut(
        self, drivers: list[int], chunks: list[list[int]]
    ) -> tuple[list[list[int]], list[int]]:
        """Next-fit: the full bins, each with a chunk as far as they go, and the drivers left."""
        target, done, fewest = self.rule.target_bytes, self.rule.done_bytes, self.rule.fewest
        stretched = target * 5 // 4
        bins: list[list[int]] = []
        chunk = chunks[0] if chunks else []
        weight, largest, held = self._weigh(chunk), self._largest(chunk), len(chunk)
        start = 0
        for position, index in enumerate(drivers):
            added = self.weights[index]
            if (
                weight + added > target
                and held >= fewest
                and weight >= 2 * largest
                and (weight >= done or weight + added > stretched)
                and position > start
            ):
                bins.append(chunk + drivers[start:position])
                start = position
                chunk = chunks[len(bins)] if len(bins) < len(chunks) else []
                weight, largest, held = self._weigh(chunk), self._largest(chunk), len(chunk)
            weight += added
            if self.forced[index]:
                held = fewest  # as good as enough of them
            else:
                held += 1
                if added > largest:  # noqa: PLR1730 - max() costs half of this loop
                    largest = added
        return bins, drivers[start:]

    def _fill(self, rest: list[int], fillers: list[int]) -> list[int]:
        """``rest`` with as many of ``fillers``, which ascend, as are worth it.

        Best is what fits the target and is done with, then what is done with at 1.5 targets at
        most, then what can still be doubled within the target. Between that and done an output
        would hardly ever find its equal.
        """
        rule, weight, largest = self.rule, self._weigh(rest), self._largest(rest)
        holds_forced = any(map(self.forced.__getitem__, rest))
        growing = fitting = beyond = 0
        started_done = weight >= rule.done_bytes
        for count, index in enumerate(fillers, 1):
            weight += self.weights[index]
            largest = max(largest, self.weights[index])
            if weight > rule.target_bytes * 3 // 2:
                break
            enough = holds_forced or len(rest) + count >= rule.fewest
            if not enough or 2 * largest > weight:
                continue
            if rule.done_bytes <= weight <= rule.target_bytes:
                fitting = count
            elif weight > rule.target_bytes and not started_done:
                beyond = beyond or count
            elif weight <= rule.target_bytes // 2:
                growing = count
        return rest + fillers[: fitting or beyond or growing]

    def _even_out(self, last: list[list[int]], rest: list[int]) -> list[list[int]]:
        """The last full bin, if any, and a remainder worth a bin: halved where that helps.

        Else the remainder might be too heavy to find its equal, and too light to be done with.
        """
        if last and self.rule.target_bytes // 2 < self._weigh(rest) < self.rule.done_bytes:
            both = last[0] + rest
            half, middle = self._weigh(both) / 2, 0
            while half > 0:
                half -= self.weights[both[middle]]
                middle += 1
            halves = [both[:middle], both[middle:]]
            if all(
                self._is_worth_it(part) and self._weigh(part) >= self.rule.done_bytes
                for part in halves
            ):
                return halves
        return [*last, rest]

    def _join(self, rest: list[int], host: list[int]) -> list[list[int]]:
        """``rest``, not worth a bin of its own, in or beside a bin that is written anyway."""
        limit = self.rule.target_bytes * 7 // 4
        if self._weigh(host) + self._weigh(rest) <= limit or len(rest) == len(host) == 1:
            return [host + rest]
        if len(rest) == 1:  # a host so heavy took its last file beyond the target
            return [host[:-1], host[-1:] + rest]
        return [host, rest]
