"""Paths of data files: ``add.path`` text, decoded names, Hive folders, absolute or not.

Three spellings exist (PROTOCOL: Add File and Remove File, Partition Value Serialization):

- the *value*, say ``a:b 1``;
- the decoded *name* in the store, where folders are Hive-escaped (step A): ``p=a%3Ab 1/x.parquet``;
- the *path* in the log, the name as a URI (step B): ``p=a%253Ab%201/x.parquet``.

Paths are decoded exactly once, to the name. ``+`` never means a space.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from unicodedata import category
from urllib.parse import quote, unquote_to_bytes

from deltactl.errors import CorruptLogError

HIVE_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null and the empty string in folder names; never in the log."""

_CONTROLS: Final = [*range(0x20), 0x7F]
_HIVE_ESCAPES: Final = {c: f"%{c:02X}" for c in [*_CONTROLS, *map(ord, "\"#%'*/:=?\\{[]^")]}
# ASCII that `java.net.URI` leaves as it is in a path. Of the rest of Unicode it escapes control and
# space characters only.
_URI_SAFE: Final = "!$&'()*+,-./:;=@_~"
_JAVA_ESCAPES: Final = frozenset({"Cc", "Zs", "Zl", "Zp"})
_NON_ASCII: Final = re.compile(r"([^\x00-\x7F]+)")
_ASCII: Final = "".join(map(chr, range(0x80)))
_ESCAPED_RUN: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")

# A scheme counts only with a slash behind it: "part:0.parquet" is a file name.
ABSOLUTE: Final = r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:)?/"
_IS_ABSOLUTE: Final = re.compile(ABSOLUTE)
_URI_PARTS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*:)?(//[^/?#]*)?([^?#]*)(.*)", re.DOTALL)
_LOOKS_LIKE_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?!/)")


def decode_path(path: str) -> str:
    """The name of one ``add.path``; as :func:`decode_paths`."""
    try:
        return unquote_to_bytes(path.encode()).decode()
    except UnicodeError:
        raise CorruptLogError(f"path {path!r} of the log does not decode to UTF-8") from None


def encode_path(name: str) -> str:
    """Return the ``add.path`` of a decoded name (step B); ``decode_path`` gives the name back.

    The text is the one that ``java.net.URI`` makes of the name: VACUUM of Delta on Spark deletes
    live files that have another text in the log (docs/adr/0004).
    In a relative name, a colon that would make its first part read as a scheme is escaped.
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
        return text  # Java takes "scheme:name" for an opaque URI
    normal = _normalize_segments(path)
    if normal == path:
        return text
    return f"{scheme}{authority if authority != '//' else ''}{normal}{rest}"


def _normalize_segments(path: str) -> str:
    """Source: ``java.net.URI.normalize``; a ``..`` without a folder before it stays."""
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
    is_folder = path.endswith("/") or kept[-1] != segments[-1]
    first, name = kept[0]
    # Without it the first segment would read as a scheme.
    dot = "./" if not is_absolute_path and first > 0 and ":" in name else ""
    start = "/" if is_absolute_path else dot
    return f"{start}{'/'.join(part for _, part in kept)}{'/' if is_folder else ''}"


def hive_escape(text: str) -> str:
    """Return a partition column's name or value as a part of a directory name (step A)."""
    return text.translate(_HIVE_ESCAPES)


def ascii_directory(name: str) -> str:
    """Return the directory for new data files of a partition: non-ASCII characters are escaped.

    All writers give the same ``remove.path`` for an ASCII name; for ``p=é``, delta-rs gives another
    than Delta on Spark (docs/adr/0004).
    """
    return name if name.isascii() else quote(name, safe=_ASCII)


def hive_unescape(text: str) -> str:
    """The text behind a part of a folder name; undoes :func:`hive_escape`.

    Some writers escape non-ASCII characters as UTF-8 too, so runs of escapes are read as UTF-8,
    and only where that fails byte by byte, as Hive itself does.
    """
    return _ESCAPED_RUN.sub(_unescape_run, text)


def _unescape_run(match: re.Match[str]) -> str:
    raw = unquote_to_bytes(match[0])
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def hive_value(text: str) -> str | None:
    """The value behind ``name=`` in a folder's name; ``None`` for the Hive placeholder."""
    return None if text == HIVE_NULL else hive_unescape(text)


def partition_folder(pairs: Sequence[tuple[str, str | None]]) -> str:
    """Folder of a partition as a decoded name: ``a=1/b=__HIVE_DEFAULT_PARTITION__``.

    Args:
        pairs: column name (as the folder shall show it) and value text in partition order;
            ``None`` and ``""`` become the Hive placeholder. Empty gives ``""``.
    """
    return "/".join(
        f"{hive_escape(name)}={hive_escape(value) if value else HIVE_NULL}" for name, value in pairs
    )


def is_absolute(path: str) -> bool:
    """Whether a decoded name is a URI or starts at a root, rather than lying under the table."""
    return _IS_ABSOLUTE.match(path) is not None


def leaves_root(name: str) -> bool:
    """Whether ``..`` parts of a relative decoded name climb out of the table's root.

    Absolute names are judged by :func:`is_absolute`; here only their ``..`` parts are.
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
