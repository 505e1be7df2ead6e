"""Refuse to remove a file that may be a needed file under another spelling of its name.

Some file systems take several names for one file, if they differ only in upper and lower case or in
their Unicode form: macOS, shared folders of Windows, ext4 with ``casefold``. A listing then shows
one spelling, and the log may have another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import SafetyError
from deltactl.operations.stored_files import Listing, stat_files
from deltactl.operations.vacuum.candidates import TOMBSTONE
from deltactl.operations.vacuum.kept_files import Kept, Role
from deltactl.option_names import option
from deltactl.protocol.arrow_schemas import array_of
from deltactl.protocol.vacuum_names import HiddenRule, below_mask
from deltactl.storage.store import Store

_HINT: Final = (
    "Check which names the file system takes for one file; nothing was removed. To copy the table "
    "to a storage that distinguishes all names, use `deltactl clone --deep`."
)

_ROLES: Final[tuple[Role, ...]] = get_args(Role)

# Number of names to keep that are looked up together. Their hash table needs as much memory as the
# names, and each lookup scans all files: with few files, larger groups save scans.
_GROUP_NAMES = 1 << 17


def find_alike(names: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the names that are another spelling of one of the others."""
    is_alike = pc.is_in(fold_names(names), value_set=fold_names(others))
    found = names.filter(is_alike)
    return found.filter(pc.invert(pc.is_in(found, value_set=others)))


def fold_names(names: Any) -> Any:  # Any: an array, or a chunked one
    """Return names of which two are equal if a file system may take them for one."""
    if pc.all(pc.string_is_ascii(names)).as_py() is not False:
        return pc.ascii_lower(names)
    return pc.utf8_lower(pc.utf8_normalize(names, form="NFKC"))


def find_missing(
    store: Store, live: pa.ChunkedArray, listing: Listing, hidden: HiddenRule, *, removes: bool
) -> pa.ChunkedArray:
    """Return live files that do not exist, among those that the listing does not contain.

    Args:
        store: the store of the table.
        live: names of live files that are not in the listing.
        listing: of all files below the root, except those that a vacuum does not list.
        hidden: the names that it does not list.
        removes: whether the vacuum would remove a file.

    Raises:
        SafetyError: a file would be removed, and one of the live files exists: the listing shows
            another spelling of its name.
    """
    is_unlisted = pc.or_(hidden.mask(live), below_mask(live, listing.links))
    links = pa.array(listing.links, pa.string())
    live = live.filter(pc.invert(pc.or_(is_unlisted, pc.is_in(live, value_set=links))))
    found = stat_files(store, live)["path"]
    if removes and len(found):
        raise SafetyError(
            f"{len(found):,} live files exist, but the listing of the table directory does not "
            f"contain their names, such as {found[0].as_py()!r}. The file system may take several "
            "spellings of a name for one file. So it is unknown which of the listed files are live",
            hint=_HINT,
        )
    return live.filter(pc.invert(pc.is_in(live, value_set=found)))


def ensure_not_moved(planned: pa.Table, missing: pa.ChunkedArray) -> None:
    """Refuse planned files that may be missing live files in another directory.

    A tool can have decoded the names of directories, or renamed them. The last part of the name of
    a data file identifies it: most have a UUID.

    ``planned`` are rows of ``CANDIDATES``; ``missing`` are names of live files that do not exist. A
    file that a commit removed under its name is known.

    Raises:
        SafetyError: there is such a file.
    """
    if not len(missing):
        return
    planned = planned.filter(pc.not_equal(planned["reason"], TOMBSTONE))
    places = pc.index_in(_last_parts(missing), value_set=_last_parts(planned["path"]))
    moved = missing.filter(places.is_valid())
    if len(moved):
        at = places.drop_null()[0].as_py()
        raise SafetyError(
            f"{planned['path'][at].as_py()!r} would be removed, but it may be the live file "
            f"{moved[0].as_py()!r}, which does not exist: their names differ only in the directory "
            f"({len(moved):,} such live files)",
            hint="Move such files to the names that the log has, then rerun; nothing was removed.",
        )


def _last_parts(names: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(names, "^.*/", "")


def ensure_not_needed(store: Store, planned: pa.Table, needed: pa.ChunkedArray) -> None:
    """Refuse planned files that may be needed files under another spelling.

    They are different files only if both exist, with another size or modification time.

    ``planned`` are rows of ``FACTS``; ``needed`` are names of needed files, without those that the
    listing contains, if there is one.

    Raises:
        SafetyError: there is such a file.
    """
    if len(needed):
        needed = find_alike(needed, planned["path"])
    if not len(needed):
        return
    found = stat_files(store, needed)
    twins = planned.take(
        pc.index_in(fold_names(found["path"]), value_set=fold_names(planned["path"]))
    )
    is_same = pc.and_(
        pc.equal(found["size_bytes"], twins["size_bytes"]),
        pc.equal(found["modified_ms"], twins["modified_ms"]),
    )
    different = found["path"].filter(pc.invert(is_same))
    doubtful = needed.filter(pc.invert(pc.is_in(needed, value_set=different)))
    if len(doubtful):
        at = pc.index_in(fold_names(doubtful.slice(0, 1)), value_set=fold_names(planned["path"]))
        raise SafetyError(
            f"{planned['path'].take(at)[0].as_py()!r} would be removed, but the table needs "
            f"{doubtful[0].as_py()!r}, which may be the same file: these names differ only in "
            "upper and lower case or in their Unicode form",
            hint=f"{_HINT} If it distinguishes them, rerun with {option('mode', 'full')}.",
        )


def distinct_names(*names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the names of all columns, each once."""
    joined = pa.chunked_array([chunk for part in names for chunk in part.chunks], pa.string())
    return pa.chunked_array([pc.unique(joined)], pa.string())


def find_named(names: pa.ChunkedArray, batches: Iterable[pa.ChunkedArray]) -> pa.Array:
    """Return a mask of the names that are in a batch. Only some batches are in memory at a time."""
    found = np.zeros(len(names), np.bool_)
    group: list[pa.Array] = []

    def look_up() -> None:
        nonlocal found
        hit = pc.is_in(names, value_set=pa.chunked_array(group, pa.string()))
        found |= hit.to_numpy()
        group.clear()

    for batch in batches:
        group += batch.chunks
        if sum(map(len, group)) >= _GROUP_NAMES:
            look_up()
    look_up()
    return array_of(found)


def find_roles(
    names: pa.ChunkedArray, batches: Iterable[Kept]
) -> tuple[pa.Array, dict[Role, pa.ChunkedArray]]:
    """Return the role of each name that is in a batch, else null; and the names not listed.

    A name in several batches has the first of the roles in the order of ``Role``. The names that
    are to keep and are not listed are by role, without ``possible`` names. Only some batches are in
    memory at a time.
    """
    found = np.full(len(names), len(_ROLES), np.int8)
    groups: dict[Role, list[pa.Array]] = {role: [] for role in _ROLES}
    unlisted: dict[Role, list[pa.Array]] = {role: [] for role in _ROLES if role != "possible"}
    limit = _GROUP_NAMES if len(names) > 4 * _GROUP_NAMES else 4 * _GROUP_NAMES

    def look_up(role: Role) -> None:
        group = pa.chunked_array(groups[role], pa.string())
        # As in `reconcile`: a large hash table grows faster outside Arrow's own pool.
        places = pc.index_in(names, value_set=group, memory_pool=pa.system_memory_pool())
        hit = pc.is_valid(places).to_numpy()
        found[hit] = np.minimum(found[hit], _ROLES.index(role))
        if role in unlisted:
            unlisted[role] += _without_places(group, places).chunks
        groups[role] = []

    for batch, role in batches:
        groups[role] += batch.chunks
        if sum(map(len, groups[role])) >= limit:
            look_up(role)
    for role in groups:
        look_up(role)
    codes = pa.array(found, mask=found == len(_ROLES))
    return pa.DictionaryArray.from_arrays(codes, pa.array(_ROLES)), {
        role: distinct_names(pa.chunked_array(chunks, pa.string()))
        for role, chunks in unlisted.items()
    }


def _without_places(group: pa.ChunkedArray, places: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the names of a group that are at none of the places."""
    is_found = np.zeros(len(group), np.bool_)
    is_found[places.drop_null().to_numpy()] = True
    rest = group.filter(array_of(~is_found))
    if len(rest):  # a repeated name was found at its first place
        rest = rest.filter(pc.invert(pc.is_in(rest, value_set=group.filter(array_of(is_found)))))
    return rest


def without_few(
    names: pa.ChunkedArray, batches: Iterable[Kept]
) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
    """Return the names that are in none of the batches, and other spellings in the batches.

    For few names.
    """
    alike = [pa.array([], pa.string())]
    for batch, role in batches:
        hits = batch.filter(pc.is_in(batch, value_set=names))
        if role != "possible":
            alike += find_alike(batch, names).chunks
        if len(hits):
            names = names.filter(pc.invert(pc.is_in(names, value_set=hits)))
    return names, pa.chunked_array(alike)
