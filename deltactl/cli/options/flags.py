"""Spell the options in texts of operations as flags of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deltactl.option_names import NAME_ONLY

_FLAGS: Final[Mapping[str, str]] = {
    "commit_every_bytes": "commit-every",
    "memory_bytes": "memory",
    "min_cluster_bytes": "min-cluster-size",
    "min_file_bytes": "min-file-size",
    "min_row_group_bytes": "min-row-group",
    "need": "if-needed",
    "properties": "property",
    "schemes": "scheme-map",
    "sidecar_rows": "sidecar-size",
    "storage_options": "storage-option",
    "target_bytes": "target-size",
    "texts": "path",
    "vectors": "dvs",
}
"""The flags that differ from the keywords of the library."""

_RESTORE: Final[Mapping[str, str]] = {"version": "to-version", "timestamp": "to-timestamp"}


def spell_flag(command: str | None, name: str, value: object = NAME_ONLY) -> str:
    """Return an option of a command with its value, as it is typed."""
    flag = _FLAGS.get(name, name.replace("_", "-"))
    if command == "restore":
        flag = _RESTORE.get(name, flag)
    if name == "deep" and value is False:
        return "--shallow"
    if value is False:
        return f"--no-{flag}"
    return f"--{flag}" if value is NAME_ONLY or value is True else f"--{flag} {value}"
