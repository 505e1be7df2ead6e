"""Split the lines of joined log files by kind of action, with one buffer for each kind.

Nearly all lines of a log add or remove a file. If each kind is parsed separately, columns have no
nulls and a small schema is enough, which halves the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from deltactl.numpy_types import Bytes, Integers

_NEWLINE = ord("\n")
_PREFIXES = {"add": b'{"add":', "remove": b'{"remove":'}
_WORD_BYTES = 8
_KINDS = ("other", *_PREFIXES)

_BLOCK_BYTES = 1 << 18  # so small that the compared bytes stay in the cache


class CommitLines:
    """The lines of some log files in order, without blank lines."""

    def __init__(self, contents: Sequence[bytes]) -> None:
        # The last element adds bytes after the end, so that a comparison with a short line does not
        # read beyond the end.
        padding = b"\n" * max(map(len, _PREFIXES.values()))
        self._next_files = np.cumsum([len(content) + 1 for content in contents])
        self._data = bytearray(b"\n").join([*contents, padding])
        view = np.frombuffer(self._data, np.uint8)
        ends = _find_newlines(view)
        starts = np.concatenate(([0], ends[:-1] + 1))
        blank = ends == starts
        # No action is that short. Such lines may be blank, for example with CRLF line ends.
        for index in np.flatnonzero(~blank & (ends - starts < len(b'{"add":{}}'))):
            blank[index] = not self._data[starts[index] : ends[index]].strip()
        self._starts: Integers = starts[~blank]
        self._ends: Integers = ends[~blank]
        self._kinds = self._find_kinds(view)

    def __len__(self) -> int:
        return len(self._starts)

    def _find_kinds(self, view: Bytes) -> npt.NDArray[np.int8]:
        kinds = np.zeros(len(self), np.int8)
        words = np.ndarray((len(view) - _WORD_BYTES + 1,), "<u8", self._data, strides=(1,))
        first = words[self._starts]
        for number, prefix in enumerate(_PREFIXES.values(), 1):
            begin = prefix[:_WORD_BYTES]
            unused = np.uint64(8 * (_WORD_BYTES - len(begin)))
            expected = np.uint64(int.from_bytes(begin, "little"))
            found = np.flatnonzero(first << unused == expected << unused)
            for place in range(_WORD_BYTES, len(prefix)):
                found = found[view[self._starts[found] + place] == prefix[place]]
            kinds[found] = number
        return kinds

    def ends_of_contents(self) -> Integers:
        """Return, for each log file, the index of the line after its last line."""
        return np.searchsorted(self._starts, self._next_files)

    def places(self, kind: str) -> Integers:
        """Return the indexes of lines of a kind (``add``, ``remove`` or ``other``), in order."""
        found: Integers = np.flatnonzero(self._kinds == _KINDS.index(kind))
        return found

    def line(self, place: int) -> bytes:
        """Return the text of the line at an index."""
        return bytes(self._data[self._starts[place] : self._ends[place]])

    def longest(self) -> int:
        """Return the length of the longest line in bytes."""
        return int((self._ends - self._starts).max(initial=0))

    def are_objects(self, kind: str) -> bool:
        """Return whether each line of a kind has the first byte of a JSON object."""
        view = np.frombuffer(self._data, np.uint8)
        return bool((view[self._starts[self.places(kind)]] == ord("{")).all())

    def take(self, kind: str) -> bytes:
        """Return the lines of a kind in a new buffer."""
        view = memoryview(self._data)
        return b"\n".join([view[first:last] for first, last in self._runs(kind)])

    def keep_only(self, kind: str) -> bytearray:
        """Return the whole buffer, with all other lines blank. Call no other method after this."""
        view = np.frombuffer(self._data, np.uint8)
        for other in _KINDS:
            if other != kind:
                for first, last in self._runs(other):
                    view[first:last] = _NEWLINE
        return self._data

    def _runs(self, kind: str) -> list[tuple[Any, Any]]:
        """Return the first byte and the end of each group of adjacent lines of a kind."""
        is_kind = np.concatenate(([False], self._kinds == _KINDS.index(kind), [False]))
        edges = np.flatnonzero(is_kind[1:] != is_kind[:-1])
        firsts, lasts = self._starts[edges[::2]], self._ends[edges[1::2] - 1]
        return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _find_newlines(view: Bytes) -> Integers:
    blocks = range(0, len(view), _BLOCK_BYTES)
    return np.concatenate(
        [np.flatnonzero(view[i : i + _BLOCK_BYTES] == _NEWLINE) + i for i in blocks]
    )
