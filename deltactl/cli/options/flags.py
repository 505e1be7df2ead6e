"""Spell the options in texts of operations as flags of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from deltactl.cli.options.declared import Declared
from deltactl.keywords import keyword_of
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
    "target_bytes": "target-size",
    "texts": "path",
    "vectors": "dvs",
}
"""The flags that differ from the keywords of the library."""


def spell_flag(options: Iterable[Declared], name: str, value: object = NAME_ONLY) -> str:
    """Return an option of a command with its value, as it is typed."""
    fallback = _FLAGS.get(name, name.replace("_", "-"))
    if value is False:
        fallback = "shallow" if name == "deep" else f"no-{fallback}"
    flag = next((it.name for it in options if keyword_of(it.field) == name), fallback)
    return f"--{flag}" if value is NAME_ONLY or isinstance(value, bool) else f"--{flag} {value}"
