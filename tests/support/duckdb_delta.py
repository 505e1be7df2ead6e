"""DuckDB with its delta extension, which comes as a package of its own."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb


def connect_duckdb(*extensions: str) -> duckdb.DuckDBPyConnection:
    """A connection that knows ``delta_scan``, and further extensions; nothing is downloaded."""
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for extension in (*extensions, "delta"):
        package = find_spec(f"duckdb_extension_{extension}")
        assert package is not None
        assert package.origin is not None
        file = next(Path(package.origin).parent.glob("extensions/v*/*.duckdb_extension"))
        connection.execute(f"LOAD '{file}'")
    return connection
