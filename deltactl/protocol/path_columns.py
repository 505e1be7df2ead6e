"""Decode, normalize and compare paths of many files at once, as Arrow columns.

``protocol/paths.py`` describes the three forms of a path and has the functions for one path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import CorruptLogError
from deltactl.numpy_types import Bytes, Integers
from deltactl.protocol.arrow_schemas import text_bytes
from deltactl.protocol.paths import ABSOLUTE, decode_path, normalize_path

_PERCENT: Final = ord("%")
_BLOCK_BYTES: Final = 1 << 20
_BLOCK_ROWS: Final = 1 << 14
# _JAVA_ESCAPED matches escapes that `encode_path` writes (non-ASCII control and space characters).
# _NOT_JAVA matches escapes that it never writes (other characters, and lower-case digits). Neither
# matches %3A: some paths have an escaped colon, but only in the first segment.
_JAVA_ESCAPED: Final = (
    r"%C2%(?:[89][0-9A-F]|A0)|%E1%9A%80|%E2%80%(?:8[0-9A]|A[89F])|%E2%81%9F|%E3%80%80"
)
_NOT_JAVA: Final = (
    r"%(?:[0-9A-Fa-f]?[a-f]|[a-f][0-9A-F]|[89A-F][0-9A-F]|2[146-9A-E]|3[0-9BD]|4[0-9A-F]|5[0-9AF]"
    r"|6[1-9A-F]|7[0-9AE])"
)

_DOT: Final = ord(".")
_SLASH: Final = ord("/")
# Paths that URI normalization may change: paths with "." and ".." segments, or double slashes. The
# two slashes before an authority do not count.
_NOT_NORMAL: Final = r"(?:^|/)\.\.?(?:[/?#]|$)|[^:/]//|:////|^////|/.*://"

_S3_ALIASES: Final = ("^(?i:s3[an])://", "s3://")
# A URI with two slashes is not local: "file://host/share" is on another machine.
_LOCAL_FILES: Final = (r"^(?i:file):(?:/|///+|//(?i:localhost)/+)([^/]|$)", r"/\1")


def _hex_values() -> npt.NDArray[np.int16]:
    table = np.full(256, -1, np.int16)
    for digit in "0123456789abcdefABCDEF":
        table[ord(digit)] = int(digit, 16)
    return table


_HEX: Final = _hex_values()


def decode_paths(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the names of ``add.path`` strings: percent-decoded exactly once.

    Args:
        paths: ``string`` or ``large_string``; nulls stay null. A ``%`` that is not followed by two
            hex digits stays unchanged.

    Returns:
        An array of the same type and chunks as ``paths``; ``paths`` itself if nothing is escaped.

    Raises:
        CorruptLogError: a decoded name is not UTF-8; the message has the path.
    """
    return _by_chunk(paths, _decode_array)


def _by_chunk(
    values: pa.Array | pa.ChunkedArray, convert: Callable[[pa.Array], pa.Array]
) -> pa.Array | pa.ChunkedArray:
    """Call ``convert`` for each chunk; return the input itself if no chunk changes."""
    if not isinstance(values, pa.ChunkedArray):
        return convert(values)
    before = values.chunks
    after = [convert(chunk) for chunk in before]
    if all(new is old for new, old in zip(after, before, strict=True)):
        return values
    return pa.chunked_array(after, values.type)


def _decode_array(array: pa.Array) -> pa.Array:
    data, offsets = text_bytes(array)
    if not _has_percent(data):
        return array
    decoded = np.empty_like(data)
    moved = np.zeros_like(offsets)
    has_high_bytes = False
    # Decode in blocks, so that temporary arrays fit in the CPU cache. Most of the speed comes from
    # this.
    for first in range(0, len(array), _BLOCK_ROWS):
        rows = offsets[first : first + _BLOCK_ROWS + 1]
        block, ends, high = _decode_block(data[rows[0] : rows[-1]], rows - rows[0])
        start = moved[first]
        decoded[start : start + len(block)] = block
        moved[first : first + len(rows)] = ends + start
        has_high_bytes |= high
    result = _text_array(array, decoded[: moved[-1]], moved)
    if has_high_bytes:
        _ensure_utf8(result, array)
    return result


def _decode_block(data: Bytes, offsets: Integers) -> tuple[Bytes, Integers, bool]:
    """Return decoded bytes, the rows' offsets in them, and whether any decoded byte is >= 0x80."""
    escapes = _find_escapes(data, offsets)
    if not len(escapes):
        return data, offsets, False
    codes = (_HEX[data[escapes + 1]] << 4 | _HEX[data[escapes + 2]]).astype(np.uint8)
    decoded = data.copy()
    decoded[escapes] = codes
    keep = np.ones(len(data), np.bool_)
    keep[escapes + 1] = False
    keep[escapes + 2] = False
    moved = offsets - 2 * np.searchsorted(escapes, offsets)
    return decoded[keep], moved, bool((codes >= 0x80).any())


def _has_percent(data: Bytes) -> bool:
    # A search for a byte takes a tenth of the time of an Arrow kernel for strings.
    return any(
        bool((data[start : start + _BLOCK_BYTES] == _PERCENT).any())
        for start in range(0, len(data), _BLOCK_BYTES)
    )


def _find_escapes(data: Bytes, offsets: Integers) -> Integers:
    """Return positions of each ``%`` that starts a valid escape within one row, ascending."""
    percents = np.flatnonzero(data == _PERCENT)
    row_ends = offsets[np.searchsorted(offsets, percents, side="right")]
    percents = percents[percents + 2 < row_ends]
    is_hex = (_HEX[data[percents + 1]] >= 0) & (_HEX[data[percents + 2]] >= 0)
    escapes: Integers = percents[is_hex]
    return escapes


def _text_array(like: pa.Array, data: Bytes, offsets: Integers) -> pa.Array:
    wide = pa.types.is_large_string(like.type)
    validity = None
    if like.null_count:
        validity = pc.is_valid(like).buffers()[1]
    buffers = [
        validity,
        pa.py_buffer(offsets if wide else offsets.astype(np.int32)),
        pa.py_buffer(data),
    ]
    return pa.Array.from_buffers(like.type, len(like), buffers, like.null_count)


def _ensure_utf8(decoded: pa.Array, paths: pa.Array) -> None:
    try:
        decoded.validate(full=True)
    except pa.ArrowInvalid:
        for path in paths:  # find the invalid path; speed does not matter here
            if path.is_valid:
                decode_path(path.as_py())
        raise CorruptLogError(
            "the log contains a path that is not valid UTF-8 after percent-decoding"
        ) from None


def normalize_paths(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return ``add.path`` strings as Delta on Spark compares them (``java.net.URI.normalize``).

    The normalization removes ``.`` segments, ``..`` segments with a directory before them, and
    double slashes. Escapes do not change.

    Args:
        texts: paths as in the log, ``string`` or ``large_string``; nulls stay null.

    Returns:
        An array of the same type and chunks as ``texts``; ``texts`` itself if every path is normal.
    """
    return _by_chunk(texts, _normalize_array)


def _normalize_array(array: pa.Array) -> pa.Array:
    if not _may_be_not_normal(array):
        return array
    mask = pc.fill_null(pc.match_substring_regex(array, _NOT_NORMAL), False)
    if not pc.any(mask).as_py():
        return array
    normal = [normalize_path(text) for text in array.filter(mask).to_pylist()]
    return pc.replace_with_mask(array, mask, pa.array(normal, array.type))


def _may_be_not_normal(array: pa.Array) -> bool:
    """Return whether any text has a slash before a slash or dot, or a dot at its start.

    All bytes are searched at once.
    """
    if not len(array):
        return False
    data, offsets = text_bytes(array)
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES + 1]
        after = block[1:][block[:-1] == _SLASH]
        if ((after == _SLASH) | (after == _DOT)).any():
            return True
    starts = offsets[:-1]
    return bool((data[starts[starts < len(data)]] == _DOT).any())


def absolute_mask(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return the result of ``paths.is_absolute`` for each row; false for null."""
    return pc.fill_null(pc.match_substring_regex(paths, ABSOLUTE), False)


def canonical_paths(decoded: pa.Array | pa.ChunkedArray, scheme: str) -> pa.Array | pa.ChunkedArray:
    """Return one form of each absolute name, so that names of the same file are equal.

    Writers write the same file as ``file:/x``, ``file:///x`` or ``/x``, and as ``s3a://``,
    ``s3n://`` or ``s3://``. Relative names and other schemes do not change.

    Args:
        decoded: decoded names, ``string`` or ``large_string``.
        scheme: scheme of the table's store. If it is ``file``, local URIs become plain paths.

    Returns:
        An array of the same kind as ``decoded``; ``decoded`` itself if no row is absolute.
    """

    def canonical(array: pa.Array) -> pa.Array:
        mask = absolute_mask(array)
        if not pc.any(mask).as_py():
            return array
        names = pc.replace_substring_regex(array.filter(mask), *_S3_ALIASES)
        if scheme == "file":
            names = pc.replace_substring_regex(names, *_LOCAL_FILES)
        return pc.replace_with_mask(array, mask, names)

    return _by_chunk(decoded, canonical)


def not_java_text_mask(paths: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return a mask of the log paths that have escapes which ``java.net.URI`` does not write.

    VACUUM of Delta on Spark deletes the file of such a path, although it is live (docs/adr/0004).

    Args:
        paths: paths as in the log. For null, the result is false.
    """
    rest = pc.replace_substring_regex(paths, _JAVA_ESCAPED, "")
    return pc.fill_null(pc.match_substring_regex(rest, _NOT_JAVA), False)


def parent_directories(names: pa.ChunkedArray) -> set[str]:
    """Return all directories that contain one of the files, directly or deeper."""
    parents = pc.unique(pc.replace_substring_regex(names, r"/?[^/]*$", "")).to_pylist()
    found: set[str] = set()
    for deepest in parents:
        parent = deepest
        while parent and parent not in found:
            found.add(parent)
            parent = parent.rpartition("/")[0]
    return found
