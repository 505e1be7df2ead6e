"""Collect findings as columns; the registry of codes describes them at the end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.codes import SEVERITIES, Code, load_findings
from deltactl.errors import StorageError, ignore_warning
from deltactl.operations.owners import find_away
from deltactl.operations.vacuum.past_vacuums import find_past_vacuums
from deltactl.option_names import option
from deltactl.storage.names import is_absolute_name
from deltactl.storage.store import Store

Row: TypeAlias = tuple[str, int | None, str | None, str]
"""Code, version, file, problem."""

RAW: Final = pa.schema(
    [
        ("code", pa.string()),
        ("version", pa.int64()),
        ("file", pa.string()),
        ("problem", pa.string()),
    ]
)
FINDINGS: Final = pa.schema(
    [
        ("code", pa.string()),
        ("severity", pa.string()),
        ("version", pa.int64()),
        ("file", pa.string()),
        ("problem", pa.string()),
        ("meaning", pa.string()),
        ("repair", pa.string()),
    ]
)
"""The findings of a report, errors first. ``file`` is a decoded name from the log."""


def to_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as columns of :data:`RAW`; strings that are not valid UTF-8 are escaped."""
    columns = zip(*rows, strict=True) if rows else [[]] * len(RAW)
    return pa.table(
        [
            pa.array([_as_utf8(v) for v in values], field.type)
            for values, field in zip(columns, RAW, strict=True)
        ],
        schema=RAW,
    )


def _as_utf8(value: str | int | None) -> str | int | None:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value


NOT_NEEDED: Final = "readers do not need this file"
_AWAY: Final = (
    "no table is at this address, or another one: it was moved, or its storage is not mounted. "
    "Make the address lead to the table again, for example by a symbolic link. If it was deleted, "
    "`deltactl check {table} --fix missing-files` says whether this table can be kept"
)


_SIZE_FIRST: Final = (
    "first that of FILE_SIZE: the log describes other rows of this file. Then check again"
)
_AFTER_LOG: Final = "restore the log from a backup until the latest version can be rebuilt, then "


@dataclass(slots=True)
class Findings:
    """Collect findings and notes; a note says which part could not be checked, and why.

    ``repairs`` has repairs by file, where those of the codes do not apply. ``waits_for_log``: the
    latest version cannot be rebuilt, so no command can repair anything yet. ``stats_noted`` are
    files whose statistics a note is about.
    """

    rows: list[Row] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    repairs: dict[str, str] = field(default_factory=dict)
    waits_for_log: bool = False
    stats_noted: dict[str, None] = field(default_factory=dict)
    _tables: list[pa.Table] = field(default_factory=list)

    def add(
        self, code: str, problem: str, *, version: int | None = None, file: str | None = None
    ) -> None:
        """Add one finding."""
        self.rows.append((code, version, file, problem))

    def take(self, found: pa.Table) -> None:
        """Add findings as columns of :data:`RAW`."""
        self._tables.append(found)

    def note(self, text: str) -> None:
        """Add a note; repeated notes are kept once."""
        self.notes[text] = None

    def add_optional(self, row: Row, *, strict: bool) -> None:
        """Add a problem of a file that readers do not need; if not ``strict``, as a note."""
        if strict:
            self.rows.append(row)
        else:
            self.note(f"{row[3]}; {NOT_NEEDED}. With {option('checkpoints')}, this is a finding")

    def note_stats(self, text: str, file: str) -> None:
        """Add a note about the statistics of a file, which ``check --fix stats`` replaces."""
        self.note(text)
        self.stats_noted[file] = None

    def has(self, *codes: str) -> bool:
        """Return whether one of the codes was found by :meth:`add`."""
        return any(row[0] in codes for row in self.rows)

    def finish(self, store: Store, storage_options: Mapping[str, str]) -> pa.Table:
        """Return all findings as :data:`FINDINGS`, errors first, then by code, version and file.

        ``storage_options`` are those of the table, for the tables whose files a shallow clone has.
        """
        found = pa.concat_tables([to_table(self.rows), *self._tables]).combine_chunks()
        codes = list(load_findings().values())
        names = pa.array([code.name for code in codes])
        positions = pc.index_in(found["code"], value_set=names)
        repairs = _repairs(codes, found["file"], positions, store.uri)
        repairs = _replace_repairs(found, repairs, store, storage_options)
        repairs = _wait_for_sizes(found, repairs)
        for name, text in self.repairs.items():
            repairs = pc.if_else(pc.fill_null(pc.equal(found["file"], name), False), text, repairs)
        if self.waits_for_log:
            runs = pc.replace_substring_regex(repairs, r"(?s)^(deltactl .*)$", r"run `\1`")
            later = pc.binary_join_element_wise(_AFTER_LOG, runs, "")
            repairs = pc.if_else(pc.starts_with(runs, "run `deltactl "), later, repairs)
        described = pa.table(
            [
                found["code"],
                pa.array([code.severity for code in codes]).take(positions),
                found["version"],
                found["file"],
                found["problem"],
                pa.array([code.effect for code in codes]).take(positions),
                repairs,
            ],
            schema=FINDINGS,
        )
        order = ("severity", "code", "version", "file")
        return described.sort_by([(name, "ascending") for name in order])


def _repairs(
    codes: Sequence[Code], files: pa.ChunkedArray, positions: pa.ChunkedArray, uri: str
) -> pa.ChunkedArray:
    texts = [code.repair.replace("{table}", shlex.quote(uri)) for code in codes]
    parts = [text.partition("{file}") for text in texts]
    before = pa.array([head for head, _, _ in parts]).take(positions)
    after = pa.array([tail for _, _, tail in parts]).take(positions)
    named = pa.array([bool(mark) for _, mark, _ in parts]).take(positions)
    middle = pc.if_else(named, pc.fill_null(files, "it"), "")
    return pc.binary_join_element_wise(before, middle, after, "")


def _replace_repairs(
    found: pa.Table, repairs: pa.ChunkedArray, store: Store, storage_options: Mapping[str, str]
) -> pa.ChunkedArray:
    """Replace the repairs of missing files of a moved table, and of files that an undo restores."""
    is_missing = pc.is_in(found["code"], value_set=pa.array(["FILE_MISSING", "VECTOR_MISSING"]))
    missing = pc.unique(found["file"].filter(is_missing)).to_pylist()
    outside = [name for name in missing if is_absolute_name(name) and _is_beside(store, name)]
    if outside and find_away(store, outside, storage_options):
        mask = pc.is_in(found["file"], value_set=pa.array(outside))
        away = _AWAY.format(table=shlex.quote(store.uri))
        repairs = pc.if_else(pc.and_(is_missing, mask), away, repairs)
    is_wrong = pc.equal(found["code"], "FILE_SIZE")
    asked = pc.unique(found["file"].filter(pc.or_(is_missing, is_wrong))).to_pylist()
    if not asked:
        return repairs
    for past in find_past_vacuums(store, asked, storage_options, ignore_warning):
        mask = pc.and_(is_missing, pc.is_in(found["file"], value_set=past.restorable))
        repairs = pc.if_else(mask, past.undo, repairs)
        mask = pc.and_(is_wrong, pc.is_in(found["file"], value_set=past.blocked))
        repairs = pc.if_else(
            mask, f"move the file out of the table, then run `{past.undo}`", repairs
        )
    return repairs


def _wait_for_sizes(found: pa.Table, repairs: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace the repairs of statistics of files with another size, whose rows are others."""
    sized = found["file"].filter(pc.equal(found["code"], "FILE_SIZE")).combine_chunks()
    is_sized = pc.is_in(found["file"], value_set=sized)
    mask = pc.and_(is_sized, pc.starts_with(found["code"], "STATS_"))
    return pc.if_else(mask, _SIZE_FIRST, repairs)


def _is_beside(store: Store, name: str) -> bool:
    """Return whether an absolute name is on the same kind of storage."""
    try:
        store.real_names([name])
    except StorageError:
        return False
    return True


def count_by_severity(findings: pa.Table) -> dict[str, int]:
    """Return the number of findings of each severity."""
    return {
        severity: pc.sum(pc.equal(findings["severity"], severity)).as_py() or 0
        for severity in SEVERITIES
    }
