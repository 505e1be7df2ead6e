"""Options of ``check --fix``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

from deltactl.errors import UsageError
from deltactl.option_fields import (
    ensure_declared,
    execution_option,
    safety_option,
    selection_option,
)
from deltactl.option_names import option


class Fix(StrEnum):
    """What ``check --fix`` can repair."""

    CHECKSUM = "checksum"
    LAST_CHECKPOINT = "last-checkpoint"
    MISSING_FILES = "missing-files"
    MISSING_VECTORS = "missing-vectors"
    PATH_ENCODING = "path-encoding"
    STATS = "stats"


_ENTRIES: Final = frozenset({"texts", "expect_files"})
_TAKES: Final[Mapping[Fix | None, frozenset[str]]] = {
    Fix.MISSING_FILES: _ENTRIES,
    Fix.MISSING_VECTORS: _ENTRIES | {"drop_files", "keep_deleted_rows"},
    Fix.PATH_ENCODING: frozenset({"texts"}),
}


def to_fix(kind: Fix | str | None) -> Fix | None:
    """Return a fix, or the one with this name.

    Raises:
        UsageError: there is none.
    """
    if kind is not None and kind not in list(Fix):
        raise UsageError(f"{kind!r} is not a kind of fix", hint=f"Use one of: {', '.join(Fix)}.")
    return None if kind is None else Fix(kind)


@dataclass(frozen=True, slots=True)
class FixOptions:
    """What to repair, and how. ``deltactl check --help-all`` explains the options.

    ``kind`` is ``--fix``: the kind of finding. ``texts`` is ``--path``: repair only these paths,
    as ``check`` prints them or as in the log. ``missing-vectors`` needs ``drop_files``, which loses
    the live rows of the files, or ``keep_deleted_rows``, which brings their deleted rows back.
    """

    kind: Annotated[Fix | None, to_fix] = execution_option(
        None,
        "Repair findings of one kind. Asks first. checksum: write this file of the latest version. "
        "last-checkpoint: the same, and delete what lost commits left. missing-files: remove "
        "missing data files from the table. missing-vectors: the same for files without their "
        "deletion vector. path-encoding: remove files that are live because of another "
        "encoding of the path. stats: correct missing or wrong statistics",
        flag="fix",
        alone_with=(
            "texts", "expect_files", "drop_files", "keep_deleted_rows", "yes", "dry_run",
        ),
        choices=tuple(Fix),
        is_basic=True,
    )  # fmt: skip
    texts: tuple[str, ...] = selection_option(
        (),
        "With --fix: repair only this path, as check prints it or as in the log. May be repeated",
        flag="path",
        metavar="TEXT",
    )
    expect_files: int | None = safety_option(
        None,
        "With --fix missing-files and missing-vectors: change the table only if the fix affects "
        "exactly N files. Needed if these are more than 5% of the files of the table, or all files "
        "of a directory",
        metavar="N",
        least=0,
    )
    drop_files: bool = safety_option(
        False,
        "With --fix missing-vectors: remove the files from the table. Also their live rows are "
        "lost",
    )
    keep_deleted_rows: bool = safety_option(
        False,
        "With --fix missing-vectors: keep the files without deletion vectors. Their deleted rows "
        "are in the table again",
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        given = [name for name in self.__slots__ if name != "kind" and getattr(self, name)]
        taken = _TAKES.get(self.kind, frozenset())
        for name in given:
            if name not in taken:
                fits = ", ".join(it or "" for it, names in _TAKES.items() if name in names)
                raise UsageError(
                    f"{option(name)} can only be used with {option('kind')} and one of: {fits}",
                    hint=f"Omit {option(name)}, or choose another fix.",
                )
        if self.drop_files and self.keep_deleted_rows:
            raise UsageError(
                f"{option('drop_files')} and {option('keep_deleted_rows')} cannot be combined"
            )
