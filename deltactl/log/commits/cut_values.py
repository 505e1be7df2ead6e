"""Find and copy the values of lines that have the same text between their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.lines import Positions
from deltactl.protocol.arrow_schemas import array_of

_MOST_LENGTHS: Final = 32  # of one value in all lines of a text, the last value excepted
_MOST_DIGITS: Final = 16
_BLOCK_BYTES: Final = 1 << 18  # so small that the compared bytes stay in the cache
_WORD_BYTES: Final = 8
_INLINE_BYTES: Final = 12  # a string view has its text, or four bytes of it and a position

_QUOTE: Final = ord('"')
_BACKSLASH: Final = ord("\\")
_BLANK: Final = ord(" ")
_ZERO: Final = ord("0")
_ZEROS: Final = np.uint64(int.from_bytes(b"0" * _WORD_BYTES, "little"))

_HALF: Final = np.uint64(32)
LOW_BYTES: Final = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)
"""The words with all bits of their zero to eight lower bytes."""

_Bytes: TypeAlias = npt.NDArray[np.uint8]
_Words: TypeAlias = npt.NDArray[np.uint64]
_Flags: TypeAlias = npt.NDArray[np.bool_]
Span: TypeAlias = tuple[Positions, Positions]


class CutError(Exception):
    """The lines differ in more than their values, or have values that cannot be cut."""


class LineText:
    """Lines of a text. At least ten bytes follow the last line."""

    def __init__(self, data: bytearray, starts: Positions, ends: Positions) -> None:
        """Take the text, and the first byte and the end of each line."""
        self._data = data
        self._starts, self._ends = starts, ends
        self._bytes = np.frombuffer(data, np.uint8)
        # The eight bytes from each position on.
        self._words: _Words = np.ndarray((len(data) - _WORD_BYTES + 1,), "<u8", data, strides=(1,))

    def find_values(self, constants: Sequence[bytes]) -> list[Span]:
        """Return the start and end of each value in all lines.

        Args:
            constants: the text before each value, and the text after the last value.

        Raises:
            CutError: a line has another text between its values.
        """
        self._ensure_text(self._starts, constants[0])
        start = self._starts + len(constants[0])
        spans = []
        for constant in constants[1:-1]:
            end = self._search(start, constant)
            self._ensure_text(end, constant, skips_first=True)
            spans.append((start, end))
            start = end + len(constant)
        end = self._ends - len(constants[-1])
        if (end < start).any():
            raise CutError
        self._ensure_text(end, constants[-1])
        return [*spans, (start, end)]

    def _search(self, starts: Positions, constant: bytes) -> Positions:
        """Return for each line where a text after a position may be: its first bytes are there.

        In most lines, a value has one of a few lengths.
        """
        found = starts
        left: slice | Positions = slice(None)
        first = 0
        for _ in range(_MOST_LENGTHS):
            start = int(starts[first])
            length = self._data.find(constant, start, int(self._ends[first])) - start
            if length < 0:
                raise CutError
            places = np.minimum(starts[left] + length, len(self._words) - 1)
            is_missing = ~self._begins(places, constant)
            if isinstance(left, slice):
                found, left = places, np.flatnonzero(is_missing)
            else:
                found[left] = places
                left = left[is_missing]
            if not len(left):
                return found
            first = left[0]
        raise CutError

    def _begins(self, places: Positions, constant: bytes) -> _Flags:
        """Return whether the text at each place has the first eight bytes of a text."""
        begin = constant[:_WORD_BYTES]
        expected = np.uint64(int.from_bytes(begin, "little"))
        words = self._words[places]
        if len(begin) < _WORD_BYTES:
            words &= LOW_BYTES[len(begin)]
        found: _Flags = words == expected
        return found

    def _ensure_text(
        self, places: Positions, constant: bytes, *, skips_first: bool = False
    ) -> None:
        """Raise an error unless a text is at each place.

        With ``skips_first``, the caller has compared its first eight bytes.
        """
        # The text is part of a line. So it is never equal to bytes after the end of a line, and the
        # words after a first difference, which may be after the end of the data, are not read.
        last = max(len(constant) - _WORD_BYTES, 0)
        steps = {*range(0, last, _WORD_BYTES), last} - ({0} if skips_first else set())
        for step in sorted(steps):
            if not self._begins(places + step, constant[step:]).all():
                raise CutError

    def strings(self, starts: Positions, ends: Positions, *, escaped: bool) -> pa.Array:
        """Return the text of a value in all lines: the bytes of a JSON string without its quotes.

        With ``escaped``, quotes in the text are escaped, and stay so.

        Raises:
            CutError: a text is no JSON string, or has other escapes.
        """
        lengths = ends - starts
        views = self._find_views(starts, lengths)
        buffers = [None, pa.py_buffer(views), pa.py_buffer(self._data)]
        found = pc.cast(
            pa.Array.from_buffers(pa.string_view(), len(starts), buffers),
            pa.string(),
            memory_pool=pa.system_memory_pool(),
        )
        data = found.buffers()[2]
        if data is not None:
            size = int(lengths.sum())
            _ensure_strings(np.frombuffer(data, np.uint8, size), escaped=escaped)
        if escaped and (self._bytes[starts[lengths > 0]] == _QUOTE).any():
            raise CutError
        return found

    def _find_views(self, starts: Positions, lengths: Positions) -> _Words:
        """Return string views of two words. The lower half of the first one is the length.

        After it, a short text follows; of a longer one only four bytes, a zero and the position.
        """
        views = np.empty((len(starts), 2), np.uint64)
        first = self._words[starts]
        views[:, 0] = lengths
        views[:, 0] |= first << _HALF
        views[:, 1] = starts
        views[:, 1] <<= _HALF
        short = np.flatnonzero(lengths <= _INLINE_BYTES)
        if len(short):
            size = lengths[short]
            first = first[short] & LOW_BYTES[np.minimum(size, _WORD_BYTES)]
            # At the end of the last line, there may be no such word; then none of it is used.
            places = np.minimum(starts[short] + _WORD_BYTES, len(self._words) - 1)
            rest = self._words[places]
            rest &= LOW_BYTES[np.maximum(size - _WORD_BYTES, 0)]
            views[short, 0] = size.astype(np.uint64) | first << _HALF
            views[short, 1] = first >> _HALF | rest << _HALF
        return views

    def numbers(self, starts: Positions, ends: Positions) -> pa.Array:
        """Return the whole numbers of all lines, from zero on.

        Raises:
            CutError: a text is no such number in JSON, or has more than 16 digits.
        """
        lengths = ends - starts
        if (lengths < 1).any() or (lengths > _MOST_DIGITS).any():
            raise CutError
        if ((self._bytes[starts] == _ZERO) & (lengths > 1)).any():
            raise CutError
        values = self._read_digits(ends, np.minimum(lengths, _WORD_BYTES))
        longer = np.flatnonzero(lengths > _WORD_BYTES)
        if len(longer):
            upper = self._read_digits(ends[longer] - _WORD_BYTES, lengths[longer] - _WORD_BYTES)
            values[longer] += upper * np.uint64(10**_WORD_BYTES)
        return array_of(values.view(np.int64))

    def _read_digits(self, ends: Positions, lengths: Positions) -> _Words:
        """Return the numbers of the one to eight digits before each end.

        All eight digits of a word are added in three steps: in pairs, in fours, in eights.
        """
        words = self._words[ends - _WORD_BYTES]
        other_bits = (8 * (_WORD_BYTES - lengths)).astype(np.uint64)
        mask = ~np.uint64(0) << other_bits
        words = (words & mask) | (_ZEROS & ~mask)
        digits = words ^ _ZEROS
        # A byte above nine has one of the upper four bits, or gets one if six is added.
        if (
            (digits | digits + np.uint64(0x0606060606060606)) & np.uint64(0xF0F0F0F0F0F0F0F0)
        ).any():
            raise CutError
        digits = digits * np.uint64(1 + (10 << 8)) >> np.uint64(8)
        digits &= np.uint64(0x00FF00FF00FF00FF)
        digits = digits * np.uint64(1 + (100 << 16)) >> np.uint64(16)
        digits &= np.uint64(0x0000FFFF0000FFFF)
        numbers: _Words = digits * np.uint64(1 + (10_000 << 32)) >> np.uint64(32)
        return numbers

    def flags(self, starts: Positions, ends: Positions) -> pa.Array:
        """Return the booleans of all lines.

        Raises:
            CutError: a text is neither ``true`` nor ``false``.
        """
        lengths = ends - starts
        is_true = self._begins(starts, b"true") & (lengths == len(b"true"))
        is_false = self._begins(starts, b"false") & (lengths == len(b"false"))
        if not (is_true | is_false).all():
            raise CutError
        return array_of(is_true)


def _ensure_strings(data: _Bytes, *, escaped: bool) -> None:
    """Raise an error for bytes that JSON strings do not have, in the texts one after the other.

    With ``escaped``, each quote is after a backslash, and a quote is after each backslash. The
    caller checks that no text begins with a quote.
    """
    for first in range(0, len(data), _BLOCK_BYTES):
        block = data[first : first + _BLOCK_BYTES + 1]
        if block.min() < _BLANK:
            raise CutError
        is_quote, is_backslash = block == _QUOTE, block == _BACKSLASH
        if not escaped and (is_quote.any() or is_backslash.any()):
            raise CutError
        if escaped and not np.array_equal(is_backslash[:-1], is_quote[1:]):
            raise CutError
    if escaped and len(data) and data[-1] == _BACKSLASH:
        raise CutError
