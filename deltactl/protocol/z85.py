"""Z85: 4 bytes as 5 printable characters (ZeroMQ RFC 32), as deletion vector descriptors use it."""

from __future__ import annotations

from typing import Final

ALPHABET: Final = (
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
)
_VALUES: Final = {char: value for value, char in enumerate(ALPHABET)}
_BASE: Final = 85


def z85_encode(data: bytes) -> str:
    """Text of ``data``, 5 characters for each 4 bytes.

    Raises:
        ValueError: the length is not a multiple of 4; padding is the caller's decision.
    """
    if len(data) % 4:
        raise ValueError(f"z85 encodes multiples of 4 bytes, not {len(data)}")
    chars: list[str] = []
    for start in range(0, len(data), 4):
        word = int.from_bytes(data[start : start + 4], "big")
        digits = [(word // _BASE**power) % _BASE for power in (4, 3, 2, 1, 0)]
        chars.extend(ALPHABET[digit] for digit in digits)
    return "".join(chars)


def z85_decode(text: str) -> bytes:
    """Bytes of z85 ``text``; undoes :func:`z85_encode`.

    Raises:
        ValueError: a length that is no multiple of 5, a character outside the alphabet, or a group
            over 2^32-1.
    """
    if len(text) % 5:
        raise ValueError(f"z85 text has a multiple of 5 characters, not {len(text)}")
    words: list[bytes] = []
    for start in range(0, len(text), 5):
        word = 0
        for char in text[start : start + 5]:
            if char not in _VALUES:
                raise ValueError(f"{char!r} is not a z85 character")
            word = word * _BASE + _VALUES[char]
        if word >= 1 << 32:
            raise ValueError(f"z85 group {text[start : start + 5]!r} exceeds 32 bits")
        words.append(word.to_bytes(4, "big"))
    return b"".join(words)
