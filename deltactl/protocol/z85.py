"""Encode and decode Z85 (ZeroMQ RFC 32), the text form of ids in deletion vector descriptors."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from deltactl.numpy_types import Bytes, Flags

ALPHABET: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_VALUES: Final = {char: value for value, char in enumerate(ALPHABET)}
_BASE: Final = 85
_WORD_BYTES: Final = 4
_POWERS: Final = np.array([_BASE**power for power in (4, 3, 2, 1, 0)], np.int64)


def z85_encode(data: bytes) -> str:
    """Return ``data``, a multiple of 4 bytes, as z85 text."""
    words = np.frombuffer(data, ">u4").astype(np.int64)
    return "".join(ALPHABET[code] for code in (words[:, None] // _POWERS % _BASE).ravel().tolist())


def z85_decode(text: str) -> bytes:
    """Return the bytes of z85 ``text``.

    If the last group starts with 1 to 3 ``#``, this number of bytes is missing: writers that use a
    Rust library end vectors in this way. Other groups cannot start with ``#``, because they would
    exceed 32 bits.

    Raises:
        ValueError: the length is not a multiple of 5, a character is not in the alphabet, or a
            group is over 2^32-1.
    """
    if len(text) % 5:
        raise ValueError(f"z85 text has {len(text)} characters, which is not a multiple of 5")
    groups = [text[start : start + 5] for start in range(0, len(text), 5)]
    padding = 0
    if groups:
        padding = len(groups[-1]) - len(groups[-1].lstrip("#"))
        padding = padding if padding < _WORD_BYTES else 0
        groups[-1] = groups[-1][padding:]
    words = [_decode_group(group, _WORD_BYTES) for group in groups[:-1]]
    words += [_decode_group(group, _WORD_BYTES - padding) for group in groups[-1:]]
    return b"".join(words)


_CODES: Final = np.full(256, -1, np.int64)
_CODES[np.frombuffer(ALPHABET.encode(), np.uint8)] = np.arange(_BASE)


def decode_words(chars: Bytes) -> tuple[npt.NDArray[np.uint32], Flags]:
    """Decode many strings of equal length; also return which are valid z85 without padding.

    Args:
        chars: one string per row; the number of columns is a multiple of 5.

    Returns:
        One word for each group of 5 characters. The words of invalid rows are undefined.
    """
    codes = _CODES[chars]
    words = codes.reshape(len(chars), -1, 5) @ _POWERS
    valid = np.logical_and((codes >= 0).all(axis=1), (words < 1 << 32).all(axis=1))
    return (words & 0xFFFFFFFF).astype(np.uint32), np.asarray(valid)


def _decode_group(group: str, num_bytes: int) -> bytes:
    word = 0
    for char in group:
        if char not in _VALUES:
            raise ValueError(f"{char!r} is not a z85 character")
        word = word * _BASE + _VALUES[char]
    if word >> (8 * num_bytes):
        raise ValueError(f"z85 group {group!r} exceeds {8 * num_bytes} bits")
    return word.to_bytes(num_bytes, "big")
