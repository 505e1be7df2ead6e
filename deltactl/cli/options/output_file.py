"""Check the names of local files that options let a run write."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from deltactl.errors import UsageError

_DEVICES: Final = Path("/dev")


def choose_output_file(option: str, name: str, example: str) -> Path:
    """Return the path of a file to write or replace; nothing is written yet.

    Args:
        option: the option that names the file.
        name: the path as it was given.
        example: a name of such a file, for the hint.

    Raises:
        UsageError: it is an address, a directory, a device, in a directory that cannot be written,
            or in a table.
    """
    # Imported late: most runs write no such file.
    from deltactl.operations.output_files import ensure_outside_tables
    from deltactl.storage.local.store import LocalStore

    path = Path(name)
    if "://" in name or name == "-":
        raise UsageError(
            f"{option} {name} is not a local file",
            hint=f"Give the path of a file on this machine, such as {example}.",
        )
    if path.is_dir():
        raise UsageError(
            f"{option} {name!r} is a directory",
            hint=f"Give a file in this directory, such as {example}.",
        )
    # Writing would replace the device by a file, for all programs on the machine.
    if path.parent == _DEVICES or (path.exists() and not path.is_file()):
        raise UsageError(
            f"{option} {name!r} is a device or a pipe, not a file",
            hint=f"Give a file, such as {example}.",
        )
    if not os.access(path.parent, os.W_OK):
        raise UsageError(
            f"{option} {name}: the directory {path.parent} does not exist, or is not writable",
            hint="Give a file in a directory that is writable.",
        )
    ensure_outside_tables(option, name, LocalStore(str(path.parent)))
    return path
