"""Names of the readers for which a checkpoint can be written (``--compat``). Imports no Arrow."""

from __future__ import annotations

from typing import Literal, TypeAlias

Compat: TypeAlias = Literal["default", "spark", "plain"]
"""``default``: every reader of Delta accepts it.

``spark``: the columns that Delta on Spark writes by default. ``plain``: as ``default``, without
dictionaries and compression.
"""
