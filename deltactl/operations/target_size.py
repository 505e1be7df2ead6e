"""Choose the target size of the files of a table."""

from __future__ import annotations

from deltactl.units import GIB, MIB, TIB, format_compact_size

DEFAULT_MIN_SHARE = 0.75

_SMALL_TARGET, _LARGE_TARGET = 256 * MIB, GIB
_GROW_FROM, _GROW_TO = 2.5 * TIB, 10 * TIB

DEFAULT_TARGET = (
    f"{format_compact_size(_SMALL_TARGET)} for tables up to {_GROW_FROM / TIB:g} TiB, rising to "
    f"{format_compact_size(_LARGE_TARGET)} at {_GROW_TO / TIB:g} TiB"
)
"""The target size without an option and a property, as text."""


def choose_target_bytes(option: int | None, table_property: int | None, table_bytes: int) -> int:
    """Return the target size: from the option, the table property, or the table's size.

    256 MiB up to 2.5 TiB, then increasing linearly to 1 GiB at 10 TiB.
    """
    chosen = option or table_property
    if chosen:
        return chosen
    share = (table_bytes - _GROW_FROM) / (_GROW_TO - _GROW_FROM)
    return int(_SMALL_TARGET + min(1.0, max(0.0, share)) * (_LARGE_TARGET - _SMALL_TARGET))
