"""``check --fix --path``: choose files by their names, as ``check`` prints them, or path texts."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import UsageError
from deltactl.log.audit.path_texts import PATH_COLUMNS
from deltactl.log.snapshot import Snapshot
from deltactl.operations.check.fixes.options import Fix, FixOptions
from deltactl.option_names import option

_WHAT: Final = {
    Fix.MISSING_FILES: "a missing file",
    Fix.MISSING_VECTORS: "a file without its deletion vector",
    Fix.PATH_ENCODING: "a file that `deltactl check` reports as PATH_ENCODING or "
    "PATH_ENCODING_DOUBTFUL",
}


def choose_texts(options: FixOptions, files: pa.Table, snapshot: Snapshot) -> pa.Array:
    """Return the path texts of the files that ``--path`` gives.

    ``files`` are those that the fix can change, with ``PATH_COLUMNS``; ``snapshot`` is the version
    that has them.

    Raises:
        UsageError: a path is that of none of these files, or of more than one file of the version.
    """
    given = pa.array(options.texts, pa.string())
    found = _matching(files, given)
    fixable = set(found["encoded_path"].to_pylist())
    if pc.any(pc.not_equal(found["path"], found["encoded_path"])).as_py():
        # Only then can a path also be that of a file that the fix cannot change.
        others = (_matching(batch, given) for batch in snapshot.file_batches(PATH_COLUMNS))
        found = pa.concat_tables([found, *others])
    texts: dict[str, set[str]] = defaultdict(set)
    for row in found.to_pylist():
        texts[row["path"]].add(row["encoded_path"])
    known = set().union(*texts.values())
    # If a name has several texts, the one that is equal to the name has no other form.
    meant = {it: {it} if it in texts[it] else texts[it] | ({it} & known) for it in options.texts}
    for text, choice in meant.items():
        _ensure_one(text, choice, fixable, options.kind or Fix.MISSING_FILES)
    return pa.array(sorted(set().union(*meant.values())), pa.string())


def _matching(files: pa.Table, given: pa.Array) -> pa.Table:
    is_given = (pc.is_in(files[name], value_set=given) for name in PATH_COLUMNS)
    return files.select(PATH_COLUMNS).filter(pc.or_(*is_given))


def _ensure_one(text: str, choice: set[str], fixable: set[str], kind: Fix) -> None:
    said, listing = f"{option('texts')} {text!r}", f"deltactl check TABLE --fix {kind} --dry-run"
    if not choice & fixable:
        raise UsageError(
            f"{said} is not the path of {_WHAT[kind]}",
            hint=f"Give a path that `{listing}` shows.",
        )
    if len(choice) > 1:
        raise UsageError(
            f"{said} names more than one file in the log",
            hint="Give another form of the path: its name, or its text in the log. "
            f"`{listing} -o json` shows both.",
        )
