"""Names of the readers for which a checkpoint can be written (``--compat``). Imports no Arrow."""

from __future__ import annotations

from typing import Literal, TypeAlias

Compat: TypeAlias = Literal["default", "spark", "plain"]
"""The values of ``--compat``.

- ``default``: every reader of Delta can read the checkpoint.
- ``spark``: the checkpoint has the columns that Delta on Spark writes by default.
- ``plain``: as ``default``, without dictionaries and compression.
"""
