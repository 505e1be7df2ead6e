"""Give each listed file one reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.file_kinds import log_file_kinds
from deltactl.numpy_types import Flags, Integers
from deltactl.operations.file_sizes import sum_groups
from deltactl.operations.storage.report import Reason, Use
from deltactl.operations.stored_files import Listing
from deltactl.operations.vacuum.candidates import FOREIGN, HIDDEN, LINKED, Sorting
from deltactl.operations.vacuum.journal import QUARANTINE_DIR
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.vacuum_names import below_mask, change_data_mask, vector_mask
from deltactl.storage.names import OWN_DIR

Codes: TypeAlias = npt.NDArray[np.int8]
"""Places in ``Reason``."""

_NONE: Final = -1
_REASONS: Final = tuple(Reason)
_ROLES: Final = {
    "live": Reason.LIVE,
    "retained": Reason.TIME_TRAVEL,
    "other": Reason.NEEDED_ELSEWHERE,
    "possible": Reason.KEPT,
}
# Of hidden names; the first pattern that matches counts.
_PLACES: Final = (
    (rf"^{MANIFEST_DIR}/", Reason.MANIFESTS),
    (rf"^{QUARANTINE_DIR}/", Reason.QUARANTINE),
    (rf"^{OWN_DIR}/", Reason.DELTACTL),
    ("", Reason.OTHER_FILES),
)


def find_reasons(listing: Listing, sorting: Sorting) -> Codes:
    """Return the place of each file's reason in ``Reason``."""
    codes = np.full(len(listing.files), _code(Reason.REMOVABLE), np.int8)
    for role, reason in _ROLES.items():
        codes[has_role(sorting, role)] = _code(reason)
    for why, positions, is_named in sorting.dropped:
        at = positions.to_numpy()
        if why == HIDDEN:
            codes[at] = _find_places(listing.files.take(positions), sorting.foreign)
        elif why in (FOREIGN, LINKED):
            codes[at] = _code(Reason.OTHER_TABLES if why == FOREIGN else Reason.OTHER_FILES)
        else:
            in_log = is_named.to_numpy()
            codes[at] = np.where(in_log, _code(Reason.KEPT), _code(Reason.UNREFERENCED))
    in_use = np.isin(codes, [_code(reason) for reason in (Reason.LIVE, Reason.TIME_TRAVEL)])
    for mask, reason in (
        (change_data_mask(listing.files), Reason.CHANGE_DATA),
        (vector_mask(listing.files), Reason.DELETION_VECTORS),
    ):
        codes[in_use & mask.to_numpy()] = _code(reason)
    return codes


def has_role(sorting: Sorting, role: str) -> Flags:
    """Return a mask of the files with a role."""
    is_it = pc.equal(sorting.roles.indices, sorting.roles.dictionary.index(role))
    found: Flags = pc.fill_null(is_it, False).to_numpy(zero_copy_only=False)
    return found


def _find_places(names: pa.ChunkedArray, foreign: Iterable[str]) -> Codes:
    in_log = pc.index_in(log_file_kinds(names), value_set=pa.array(_REASONS))
    codes: Codes = pc.fill_null(in_log, _NONE).to_numpy().astype(np.int8)
    codes[below_mask(names, foreign).to_numpy()] = _code(Reason.OTHER_TABLES)
    for pattern, reason in _PLACES:
        is_there = pc.match_substring_regex(names, pattern).to_numpy()
        codes[is_there & (codes == _NONE)] = _code(reason)
    return codes


def _code(reason: Reason) -> int:
    return _REASONS.index(reason)


def sum_reasons(codes: Codes, sizes: Integers) -> dict[Reason, Use]:
    """Return files and bytes by reason, in the order of ``Reason``."""
    uses = sum_uses(codes, sizes, len(_REASONS))
    return {reason: use for reason, use in zip(_REASONS, uses, strict=True) if use.files}


def sum_uses(groups: Codes | Integers, sizes: Integers, num_groups: int) -> list[Use]:
    """Return the files and bytes of each group."""
    files, totals = sum_groups(groups.astype(np.int64), sizes, num_groups)
    return list(map(Use, files.tolist(), totals.tolist()))
