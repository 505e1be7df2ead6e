"""Encode and decode one path, and escape partition values in directory names (``hive_escape``).

A partition value has three forms (PROTOCOL: Add File and Remove File, Partition Value
Serialization):

- the *value*, for example ``a:b 1``;
- the decoded *name* in the store, with Hive-escaped directories (step A): ``p=a%3Ab 1/x.parquet``;
- the *path* in the log, the name as a URI (step B): ``p=a%253Ab%201/x.parquet``.

To get the name, a path is decoded exactly once. ``+`` never means a space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from unicodedata import category
from urllib.parse import quote, unquote_to_bytes

from deltactl.errors import CorruptLogError

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The directory name for null and the empty string. The log never contains it as a value."""

_CONTROLS: Final = [*range(0x20), 0x7F]
_HIVE_ESCAPES: Final = {c: f"%{c:02X}" for c in [*_CONTROLS, *map(ord, "\"#%'*/:=?\\{[]^")]}
# ASCII characters that `java.net.URI` does not escape in a path. Of the non-ASCII characters, it
# escapes only control and space characters.
_URI_SAFE: Final = "!$&'()*+,-./:;=@_~"
_JAVA_ESCAPES: Final = frozenset({"Cc", "Zs", "Zl", "Zp"})
_NON_ASCII: Final = re.compile(r"([^\x00-\x7F]+)")
_ASCII: Final = "".join(map(chr, range(0x80)))
_ESCAPED_RUN: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")

# A scheme must be followed by a slash: "part:0.parquet" is a file name.
ABSOLUTE: Final = r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:)?/"
_IS_ABSOLUTE: Final = re.compile(ABSOLUTE)
_URI_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*:)?(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL)
_LOOKS_LIKE_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?!/)")


def decode_path(path: str) -> str:
    """Return the decoded name of one ``add.path``; ``path_columns.decode_paths`` decodes many."""
    try:
        return unquote_to_bytes(path.encode()).decode()
    except UnicodeError:
        raise CorruptLogError(
            f"the log contains the path {path!r}, which is not valid UTF-8 after percent-decoding"
        ) from None


def encode_path(name: str) -> str:
    """Return the ``add.path`` of a decoded name (step B); ``decode_path`` is the inverse.

    The result is that of ``java.net.URI``: if the log has another encoding, VACUUM of Delta on
    Spark deletes live files (docs/adr/0004). In a relative name, a colon is escaped if the first
    part would otherwise look like a scheme.
    """
    encoded = "".join(
        quote(part, safe=_URI_SAFE) if part.isascii() else _encode_other(part)
        for part in _NON_ASCII.split(name)
    )
    if _LOOKS_LIKE_SCHEME.match(encoded):
        encoded = encoded.replace(":", "%3A", 1)
    return encoded


def _encode_other(text: str) -> str:
    return "".join(quote(c) if category(c) in _JAVA_ESCAPES else c for c in text)


def normalize_path(text: str) -> str:
    """Return one ``add.path`` text after ``java.net.URI.normalize``."""
    match = _URI_PARTS.fullmatch(text)
    assert match is not None
    scheme, authority, path, rest = match[1] or "", match[2] or "", match[3], match[4]
    if scheme and not authority and not path.startswith("/"):
        return text  # for Java, "scheme:name" is an opaque URI
    normal = _normalize_segments(path)
    if normal == path:
        return text
    return f"{scheme}{authority if authority != '//' else ''}{normal}{rest}"


def _normalize_segments(path: str) -> str:
    """Return a path without ``.`` segments, ``..`` segments and double slashes.

    A ``..`` without a directory before it stays. Source: ``java.net.URI.normalize``.
    """
    is_absolute_path = path.startswith("/")
    segments = [(i, part) for i, part in enumerate(filter(None, path.split("/")))]
    kept: list[tuple[int, str]] = []
    for place, part in segments:
        if part == ".." and kept and kept[-1][1] != "..":
            kept.pop()
        elif part != ".":
            kept.append((place, part))
    if not kept:
        return "/" if is_absolute_path else ""
    is_directory = path.endswith("/") or kept[-1] != segments[-1]
    first, name = kept[0]
    # Without the "./", the first segment would look like a scheme.
    dot = "./" if not is_absolute_path and first > 0 and ":" in name else ""
    start = "/" if is_absolute_path else dot
    return f"{start}{'/'.join(part for _, part in kept)}{'/' if is_directory else ''}"


def hive_escape(text: str) -> str:
    """Escape a partition value or column name for a directory name (step A)."""
    return text.translate(_HIVE_ESCAPES)


def ascii_directory(name: str) -> str:
    """Return the directory for new data files of a partition, with non-ASCII characters escaped.

    For an ASCII name, all writers write the same ``remove.path``. For ``p=é``, delta-rs and Delta
    on Spark write different texts (docs/adr/0004).
    """
    return name if name.isascii() else quote(name, safe=_ASCII)


def hive_unescape(text: str) -> str:
    """Return the text of a part of a directory name; the inverse of :func:`hive_escape`.

    Some writers also escape non-ASCII characters, as UTF-8. So consecutive escapes are decoded as
    UTF-8. If they are not valid UTF-8, each byte becomes a character, as in Hive.
    """
    return _ESCAPED_RUN.sub(_unescape_run, text)


def _unescape_run(match: re.Match[str]) -> str:
    raw = unquote_to_bytes(match[0])
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def hive_value(text: str) -> str | None:
    """Return the value after ``name=`` in a directory name; ``None`` for the Hive placeholder."""
    return None if text == HIVE_NULL else hive_unescape(text)


def partition_directory(pairs: Sequence[tuple[str, str | None]]) -> str:
    """Return the directory of a partition, decoded: ``a=1/b=__HIVE_DEFAULT_PARTITION__``.

    Args:
        pairs: column name (as in the directory name) and value, in partition order; ``None`` and
            ``""`` become the Hive placeholder. Without pairs, the result is ``""``.
    """
    return "/".join(
        f"{hive_escape(name)}={hive_escape(value) if value else HIVE_NULL}" for name, value in pairs
    )


def is_absolute(path: str) -> bool:
    """Return whether a decoded name is a URI or begins with ``/``; other names are relative."""
    return _IS_ABSOLUTE.match(path) is not None


def leaves_root(name: str) -> bool:
    """Return whether ``..`` parts of a relative decoded name refer to a place outside of the root.

    For an absolute name, only the ``..`` parts are checked; :func:`is_absolute` finds absolute
    names.
    """
    depth = 0
    for part in name.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return True
        elif part not in ("", "."):
            depth += 1
    return False
