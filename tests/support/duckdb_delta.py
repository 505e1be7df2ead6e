"""DuckDB with its delta extension, which comes as a package of its own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """A connection that knows ``delta_scan``; nothing is downloaded."""
    import duckdb

    package = find_spec("duckdb_extension_delta")
    assert package is not None
    assert package.origin is not None
    extension = next(Path(package.origin).parent.glob("extensions/v*/delta.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    return connection
