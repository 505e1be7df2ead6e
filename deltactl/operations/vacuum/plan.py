"""Define the plan of a vacuum: files to remove, with reasons. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.file_actions import sum_sizes
from deltactl.operations.clone_notes import CloneNote
from deltactl.operations.losses import Losses
from deltactl.operations.vacuum.candidates import CANDIDATES, ORPHAN, REASONS, UNNAMED
from deltactl.operations.vacuum.horizon import Horizon
from deltactl.operations.vacuum.retention import Retention

NO_FILES = CANDIDATES.empty_table()

_SHOWN_FOLDERS = 10


@dataclass(frozen=True, slots=True)
class VacuumPlan:
    """Files and folders to remove from the table ``table_id``, by its metadata, at ``version``.

    ``mode`` is ``full``, ``lite`` or ``inventory``. ``files`` are rows of ``CANDIDATES`` by path,
    ``folders`` directories that will be empty, deepest first, ``old_folders`` old ones that are
    empty now. ``left_over`` counts files beyond ``max_files``; ``orphans`` counts files that no
    commit in the log references, including files beyond ``max_files``, and ``orphan_folders``
    describes their directories. ``kept`` counts by reason the files that no version needs but that
    are kept; ``foreign`` are directories of other tables. ``clones`` are the noted shallow clones
    whose files are kept. ``losses`` are the lost live files among those that commits added since
    they removed files of the plan, and if ``mode`` is ``full``, all that do not exist.

    ``complete_since`` is the first version whose removed files a lite plan considers.
    ``vacuumed_version`` is the value for ``_last_vacuum_info``: the version up to which this plan
    deletes all removed files; ``None`` if unknown. ``drops_record``: the version that is recorded
    now is of an earlier table at this address, and a later run must not find it.
    """

    version: int
    table_id: str
    mode: str
    retention: Retention
    files: pa.Table
    folders: tuple[str, ...] = ()
    old_folders: tuple[str, ...] = ()
    left_over: int = 0
    listed_files: int | None = None
    listed_folders: int = 0
    orphans: int = 0
    orphan_folders: str = ""
    max_orphan_fraction: float = 1.0
    kept: Mapping[str, int] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()
    complete_since: int | None = None
    vacuumed_version: int | None = None
    vacuumed_before: int | None = None
    drops_record: bool = False
    current_at_cutoff: int | None = None
    horizon: Horizon | None = None
    losses: Losses = field(default_factory=Losses, repr=False)
    clones: tuple[CloneNote, ...] = ()
    doubt: str | None = None
    covers_unknown: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to remove."""
        return not self.files.num_rows and not self.folders and not self.old_folders

    @property
    def loss(self) -> str | None:
        """Return a text about the lost live files, if there are any."""
        return self.losses.describe()

    @property
    def size_bytes(self) -> int:
        """Return the total size of the files to remove."""
        return sum_sizes(self.files)

    @property
    def unnamed_kept(self) -> int:
        """Return the number of files that are kept although no action in the log names them."""
        return sum(self.kept.get(reason, 0) for reason in UNNAMED)

    @property
    def has_too_many_orphans(self) -> bool:
        """Return whether the fraction of orphans among the files exceeds the limit."""
        listed = self.listed_files or 0
        return self.orphans > self.max_orphan_fraction * listed

    def by_reason(self) -> list[dict[str, Any]]:
        """Return a row per reason: files, bytes, oldest and newest modification (ms)."""
        return sum_up_reasons(self.files)

    def by_folder(self) -> pa.Table:
        """Return one row per directory: ``folder``, ``files``, ``bytes``, oldest and newest."""
        folders = pc.replace_substring_regex(self.files["path"], r"/?[^/]*$", "")
        rows = _sum_up(self.files, folders)
        schema = pa.schema(
            [("folder", pa.string())]
            + [(n, pa.int64()) for n in ("files", "bytes", "oldest_ms", "newest_ms")]
        )
        renamed = [{"folder": row["key"], **row} for row in rows]
        return pa.Table.from_pylist(renamed, schema).sort_by("folder")


def sum_up_reasons(files: pa.Table) -> list[dict[str, Any]]:
    """Return a row per reason: files, bytes, oldest and newest modification (ms)."""
    found = {row["key"]: row for row in _sum_up(files, files["reason"])}
    return [
        {"reason": reason, **{k: v for k, v in found[reason].items() if k != "key"}}
        for reason in REASONS
        if reason in found
    ]


def describe_orphans(files: pa.Table) -> tuple[int, str]:
    """Return the number of orphans, and a line with their directories, most files first."""
    orphans = files.filter(pc.equal(files["reason"], ORPHAN))
    folders = pc.replace_substring_regex(orphans["path"], r"/?[^/]*$", "")
    rows = sorted(_sum_up(orphans, folders), key=lambda row: (-row["files"], row["key"]))
    shown = [f"{row['key'] or '(root)'}: {row['files']:,}" for row in rows[:_SHOWN_FOLDERS]]
    more = len(rows) - len(shown)
    return orphans.num_rows, "; ".join(shown) + (f"; and {more} more directories" if more else "")


def _sum_up(files: pa.Table, keys: pa.ChunkedArray) -> list[dict[str, Any]]:
    """Return number, bytes, oldest and newest of the files of each key; all of them have both."""
    if not files.num_rows:
        return []
    # Not `group_by`: its module and those that it needs take longer to import than a dry run.
    encoded = keys.combine_chunks().dictionary_encode()
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes, times = (files[name].to_numpy()[order] for name in ("size_bytes", "modified_ms"))
    columns = {
        "key": encoded.dictionary.to_pylist(),
        "files": np.diff(starts, append=len(order)).tolist(),
        "bytes": np.add.reduceat(sizes, starts).tolist(),
        "oldest_ms": np.minimum.reduceat(times, starts).tolist(),
        "newest_ms": np.maximum.reduceat(times, starts).tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def limit_files(files: pa.Table, max_files: int | None) -> tuple[pa.Table, int]:
    """Return the first files by path, and the number of files left over."""
    ordered = files.sort_by("path")
    if max_files is None or files.num_rows <= max_files:
        return ordered, 0
    return ordered.slice(0, max_files), files.num_rows - max_files
