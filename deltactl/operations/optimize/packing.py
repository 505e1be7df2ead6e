"""Pack the candidates of one partition into bins.

Pure: works on weights only, called bytes here.

**Drivers and fillers.** Bins are made for *drivers*: files never rewritten for this target of which
``min_input_files`` fit into it (so of half the target at most), and files that must be rewritten
(*forced*). *Settled* files, which are outputs of earlier runs, are *fillers*: they are added to
bins if that pays off, but no bin is made for them. A file of more than half the target that was
never rewritten is not rewritten: the files that fit into the target with it are smaller than it.

**Drivers are packed in order**, next-fit. A bin closes when the next file does not fit the target,
unless the bin is lighter than ``min_bytes`` (its output would be a candidate again) or its largest
input outweighs the others: then it takes that file as well. So all bins but the last pay off and
need no more inputs, at 1.5 targets at most (1.75 with forced files over half the target). The
remainder at the end is a bin of its own, or is added to the last bin.

**All drivers or none.** If a bin is made, all drivers are in bins, except *dominant* drivers: those
that outweigh all lighter drivers and all settled and forced files of the partition together, and
weigh more than a tenth of the target. Up to that weight (*small* files), two files are enough.

**Therefore it converges**: the plan after an executed plan is empty. This is true for any sizes of
the outputs up to those of their inputs, and for any order of the files. If no bin was made, nothing
has changed. Otherwise the remaining drivers are the dominant ones of the first plan. Every output
is settled and weighs no more than its inputs, so the weight that a driver must outweigh has not
increased: each driver is dominant again. So no driver is packed, and without drivers there is no
bin. (Whether a driver is small depends on its own weight only, which is the same.)

**It does not rewrite repeatedly**: a byte is written once as part of a driver. Each further time,
it is part of a filler, in a bin whose largest input is at most the sum of the others. So its file
(before compression) at least doubles, which happens at most log2(target / first output) times. A
small filler is also rewritten if the drivers are a tenth of the bin, so for each new byte at most
ten are written; or if the bin is so light that its bytes cost less than its requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from deltactl.numpy_types import Flags, Integers
from deltactl.units import MIB

_SMALL_SHARE: Final = 10  # of the target, and of a bin with a small filler: a tenth
_CHEAP_BYTES: Final = MIB


@dataclass(frozen=True, slots=True)
class PackingRule:
    """The sizes that files should have.

    Attributes:
        target_bytes: the target weight.
        min_bytes: candidates are lighter than this, so an output that reaches it is not rewritten.
        min_input_files: bins have at least this many inputs, unless they contain a forced file or
            are the remainder of a partition that is rewritten anyway.
    """

    target_bytes: int
    min_bytes: int
    min_input_files: int = 2

    def __post_init__(self) -> None:
        if self.target_bytes < 1:
            raise ValueError(f"a target of {self.target_bytes} bytes")

    @property
    def done_bytes(self) -> int:
        """Return the weight at which a bin needs no more inputs."""
        return min(self.min_bytes, self.target_bytes)

    @property
    def small_bytes(self) -> int:
        """Return the weight up to which any two files are worth a rewrite."""
        return self.target_bytes // _SMALL_SHARE

    @property
    def fewest(self) -> int:
        """Return the minimum number of inputs of a bin."""
        return max(2, self.min_input_files)

    @property
    def most_bytes(self) -> int:
        """Return the most weight of an input, with which the fewest inputs fit the target."""
        return self.target_bytes // self.fewest


def pack(weights: Integers, settled: Flags, forced: Flags, rule: PackingRule) -> list[Integers]:
    """Return bins of one partition, as ascending indices; ordered by their first index.

    Args:
        weights: of the candidates in the order of ingestion; negative ones count as zero.
        settled: outputs that an earlier run made for the same target.
        forced: to be rewritten in any case, even alone; any weight.
        rule: the sizes that files should have.
    """
    packer = _Packer(np.maximum(weights, 0).tolist(), forced.tolist(), rule)
    # A forced file that is large enough is a bin of its own.
    alone = rule.target_bytes * 3 // 4
    heavy: list[int] = []
    drivers: list[int] = []
    fillers: list[int] = []
    files = zip(packer.weights, settled.tolist(), packer.forced, strict=True)
    for index, (weight, is_settled, is_forced) in enumerate(files):
        if is_forced:
            (heavy if weight > alone else drivers).append(index)
        elif is_settled:
            fillers.append(index)
        elif weight <= rule.most_bytes:
            drivers.append(index)
    bins = packer.pack_drivers(drivers, fillers, heavy)
    if fillers or heavy:  # else they are in order
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
        """Return all bins; each of the ``heavy`` files is a bin of its own."""
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
        if self._pays_off(rest):
            return alone + bins[:-1] + self._even_out(bins[-1:], rest)
        if bins:
            return alone + bins[:-1] + self._join(rest, bins[-1])
        if alone:
            # The remainder must be packed, because there are bins.
            alone.sort(key=self._weigh, reverse=True)
            return alone[:-1] + self._join(rest, alone[-1])
        return [rest] if self._contains_paying(rest) else []

    def _weigh(self, indices: Iterable[int]) -> int:
        return sum(map(self.weights.__getitem__, indices))

    def _largest(self, indices: Iterable[int]) -> int:
        """Return the weight of the heaviest file that is not forced."""
        return max((self.weights[i] for i in indices if not self.forced[i]), default=0)

    def _pays_off(self, indices: list[int]) -> bool:
        if any(map(self.forced.__getitem__, indices)):
            return True
        largest = self._largest(indices)
        is_worth = largest <= max(self.rule.small_bytes, self._weigh(indices) - largest)
        return is_worth and len(indices) >= self.rule.fewest

    def _contains_paying(self, indices: list[int]) -> bool:
        """Return whether some of the lightest files form a bin that pays off."""
        lighter = 0
        for count, weight in enumerate(sorted(map(self.weights.__getitem__, indices)), 1):
            if count >= self.rule.fewest and weight <= max(lighter, self.rule.small_bytes):
                return True
            lighter += weight
        return False

    def _without_dominant(self, drivers: list[int], others: int) -> list[int]:
        """Return ``drivers`` without those that outweigh all lighter ones plus ``others``."""
        total = self._weigh(drivers) + others
        small = self.rule.small_bytes
        # Each round halves the total.
        while 2 * (largest := self._largest(drivers)) > total and largest > small:
            drivers = [i for i in drivers if self.weights[i] < largest or self.forced[i]]
            total -= largest
        return drivers

    def _chunk(self, fillers: list[int], drivers_bytes: int) -> list[list[int]]:
        """Return the initial fillers of each bin if there are several bins: half a target each.

        Takes the lightest fillers, as many as the drivers outweigh, in chunks of adjacent files.
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
        """Pack next-fit: return full bins, each with a chunk if one is left, and the remainder."""
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
                held = fewest  # a forced file counts as enough inputs
            else:
                held += 1
                if added > largest:  # noqa: PLR1730 - max() costs half of this loop
                    largest = added
        return bins, drivers[start:]

    def _fill(self, rest: list[int], fillers: list[int]) -> list[int]:
        """Return ``rest`` with as many of the ascending ``fillers`` as pay off.

        Best is a bin that fits the target and needs no more inputs, then one of at most 1.5 targets
        that needs no more, then one that can still double within the target. An output between
        those sizes would rarely find a file of similar size.
        """
        rule, weight, largest = self.rule, self._weigh(rest), self._largest(rest)
        holds_forced = any(map(self.forced.__getitem__, rest))
        growing = fitting = beyond = 0
        started_done = weight >= rule.done_bytes
        most_small = max(_SMALL_SHARE * weight, _CHEAP_BYTES)
        for count, index in enumerate(fillers, 1):
            weight += self.weights[index]
            largest = max(largest, self.weights[index])
            if weight > rule.target_bytes * 3 // 2:
                break
            enough = holds_forced or len(rest) + count >= rule.fewest
            is_small = largest <= rule.small_bytes and weight <= most_small
            if not enough or not (is_small or 2 * largest <= weight):
                continue
            if rule.done_bytes <= weight <= rule.target_bytes:
                fitting = count
            elif weight > rule.target_bytes and not started_done:
                beyond = beyond or count
            elif weight <= rule.target_bytes // 2:
                growing = count
        return rest + fillers[: fitting or beyond or growing]

    def _even_out(self, last: list[list[int]], rest: list[int]) -> list[list[int]]:
        """Return the last full bin, if any, and the remainder; halve both where that helps.

        Otherwise the remainder may be too heavy to find a file of similar size, and too light to be
        finished.
        """
        if last and self.rule.target_bytes // 2 < self._weigh(rest) < self.rule.done_bytes:
            both = last[0] + rest
            half, middle = self._weigh(both) / 2, 0
            while half > 0:
                half -= self.weights[both[middle]]
                middle += 1
            halves = [both[:middle], both[middle:]]
            if all(
                self._pays_off(part) and self._weigh(part) >= self.rule.done_bytes
                for part in halves
            ):
                return halves
        return [*last, rest]

    def _join(self, rest: list[int], host: list[int]) -> list[list[int]]:
        """Add ``rest``, too small for a bin of its own, to a bin that is written anyway."""
        limit = self.rule.target_bytes * 7 // 4
        if self._weigh(host) + self._weigh(rest) <= limit or len(rest) == len(host) == 1:
            return [host + rest]
        if len(rest) == 1:  # the last file of so heavy a bin exceeded the target
            return [host[:-1], host[-1:] + rest]
        return [host, rest]
