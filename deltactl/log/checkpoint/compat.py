"""Which readers a checkpoint is written for. Without Arrow: the command line reads the names."""

from __future__ import annotations

from typing import Literal, TypeAlias

Compat: TypeAlias = Literal["default", "spark", "plain"]
"""``default``: every reader of Delta accepts it. ``spark``: the columns that Delta on Spark writes
when no property says otherwise. ``plain``: no dictionaries and no compression either."""
