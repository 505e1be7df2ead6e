"""Convert paths of the log to physical names under the root, so that each file has one name."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError, StorageError
from deltactl.protocol.arrow_schemas import replace_column
from deltactl.protocol.deletion_vectors import vector_files
from deltactl.protocol.paths import is_absolute
from deltactl.storage.names import ONE_STORAGE_HINT, is_absolute_name
from deltactl.storage.store import Store

_NAME_COLUMNS = ("path", "vector_file")

# A name that is absolute, or has an empty, "." or ".." part. Every other name is already a physical
# name.
_ODD = r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:)?/|(?:^|/)\.{0,2}(?:/|$)"

# Characters of a decoded name that not all readers leave as they are.
_CONTROLS = "".join(map(chr, (*range(0x20), 0x7F)))
_MISREAD = r"[\\?#\x00-\x1F\x7F]|^ | $"
# Parsers of URLs do not trim the last one, DEL.
_URL_TRIMMED = _CONTROLS[:-1] + " "


def locate(store: Store, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the physical name of each decoded name; null for nulls and names outside the root.

    Raises:
        SafetyError: it is not known whether one of the names is in the root.
    """
    odd = pc.fill_null(pc.match_substring_regex(names, _ODD), False)
    if not pc.any(odd).as_py():
        return names
    texts = names.filter(odd).to_pylist()
    try:
        for text in texts:
            if is_absolute(text) and not is_absolute_name(text):
                raise StorageError(f"{text!r} is on another kind of storage")
        found = store.real_names(texts)
    except StorageError as error:
        raise SafetyError(
            f"the log references a file that cannot be located: {error.message}",
            hint=ONE_STORAGE_HINT,
        ) from error
    located = pa.array([name or None for name in found], pa.string())  # the root is not a file
    replaced = pc.replace_with_mask(names.combine_chunks(), odd.combine_chunks(), located)
    return pa.chunked_array([replaced], pa.string())


def locate_or_keep(store: Store, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the physical name of each decoded name below the root, and other names as they are.

    Raises:
        SafetyError: as ``locate``.
    """
    return pc.coalesce(locate(store, names), names)


def file_names(store: Store, files: pa.Table) -> pa.ChunkedArray:
    """Return the physical names under the root of data files and of their deletion vectors.

    ``files`` are rows with ``path`` and ``deletion_vector``.
    """
    names = locate(store, files["path"])
    if files["deletion_vector"].null_count < files.num_rows:
        vectors = pc.unique(vector_files(files["deletion_vector"]).drop_null())
        located = locate(store, pa.chunked_array([vectors], pa.string()))
        names = pa.chunked_array([*names.chunks, *located.chunks], pa.string())
    return names.drop_null() if names.null_count else names


def event_names(store: Store, events: pa.Table) -> pa.ChunkedArray:
    """Return the physical names of files and vectors; rows have ``path`` and ``vector_file``."""
    joined = pa.chunked_array([*events["path"].chunks, *events["vector_file"].chunks], pa.string())
    return locate(store, joined.drop_null()).drop_null()


def locate_rows(store: Store, rows: pa.Table) -> pa.Table:
    """Return rows with physical names in ``path`` and ``vector_file``; see ``locate_or_keep``."""
    for column in _NAME_COLUMNS:
        rows = replace_column(rows, column, locate_or_keep(store, rows[column]))
    return rows


def needs_mask(rows: pa.Table, names: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which rows have a file or a deletion vector with one of the names."""
    return pc.or_(*(pc.is_in(rows[it], value_set=names, skip_nulls=True) for it in _NAME_COLUMNS))


def possible_names(addresses: pa.Array) -> Iterator[pa.ChunkedArray]:
    """Yield each name below some root that a file with one of these addresses may have.

    These are all ends of an address: ``f`` and ``p=1/f`` of ``/data/p=1/f``.
    """
    # Many files are in few directories, so each directory is shortened once.
    folders = pc.replace_substring_regex(addresses, "/[^/]*$", "").dictionary_encode()
    files = pc.replace_substring_regex(addresses, "^.*/", "")
    yield pa.chunked_array([files])
    ends = folders.dictionary
    while pc.any(has_more := pc.match_substring(ends, "/")).as_py():
        ends = pc.replace_substring_regex(pc.if_else(has_more, ends, None), "^[^/]*/+", "")
        names = pc.binary_join_element_wise(ends.take(folders.indices), files, "/")
        yield pa.chunked_array([names.drop_null()])


def misread_names(store: Store, names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the other physical names for which some reader takes one of the names.

    delta-rs treats paths as URLs: a backslash is a slash, a query and a fragment are cut off, line
    breaks and tabs are left out, and so are spaces at the ends. For some reads it escapes control
    characters. Other readers use the names as they are.
    """
    is_odd = pc.fill_null(pc.match_substring_regex(names, _MISREAD), False)
    if not pc.any(is_odd).as_py():
        return names.slice(0, 0)
    odd = names.filter(is_odd).combine_chunks()
    url = pc.replace_substring_regex(pc.utf8_trim(odd, _URL_TRIMMED), r"(?s)[\t\r\n]|[?#].*", "")
    escaped = odd
    for code in (*range(0x20), 0x7F):
        escaped = pc.replace_substring(escaped, chr(code), f"%{code:02X}")
    taken = pa.chunked_array([pc.replace_substring(url, "\\", "/"), escaped])
    located = locate(store, taken.filter(pc.not_equal(taken, "")))
    return located.drop_null()
