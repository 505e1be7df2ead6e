"""Refuse manifests of several partitions in one directory.

Some file systems take several names for one directory, if they differ only in upper and lower case
or in their Unicode form. Then the manifest of one partition would replace that of another.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from deltactl.errors import SafetyError
from deltactl.option_names import option
from deltactl.storage.names import OWN_DIR
from deltactl.storage.store import Store

Alike = tuple[tuple[str, str], ...]


def find_alike(folders: Iterable[str]) -> Alike:
    """Return pairs of directories that such a file system may take for one."""
    first: dict[str, str] = {}
    pairs = []
    for folder in folders:
        other = first.setdefault(unicodedata.normalize("NFKC", folder).casefold(), folder)
        if other != folder:
            pairs.append((other, folder))
    return tuple(pairs)


def ensure_distinct(output: Store, alike: Alike) -> None:
    """Try with a file of these names whether the file system distinguishes them.

    Raises:
        SafetyError: it does not.
    """
    for one, other in alike:
        parts = zip(one.split("/"), other.split("/"), strict=False)
        probe, alias = next((f"{OWN_DIR}/{a}", f"{OWN_DIR}/{b}") for a, b in parts if a != b)
        output.put(probe, b"")
        is_same = output.stat_many([alias]) != [None]
        output.delete_many([probe])
        if is_same:
            raise SafetyError(
                f"no manifest was written: {output.uri} is on a file system that takes {one!r} and "
                f"{other!r} for one directory, so one manifest would replace the other",
                hint=f"Rerun with {option('output_root')} and an address whose file system "
                "distinguishes these names.",
            )
