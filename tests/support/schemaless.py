"""Tables on disk whose first ``metaData`` has no schema, as Delta Live Tables writes them."""

import json
from pathlib import Path
from typing import Any, Final

from deltactl.storage.open import open_store
from tests.support.table_builder import Column, TableBuilder, commit_path, encode_lines

ABSENT: Final = object()
"""In place of a schema: the member is not there."""

NO_SCHEMA: Final = (ABSENT, None, "")
"""Ways to say that there is no schema."""


NUM_FILES: Final = 8
"""Files of the table, and rows."""


def make_schemaless(
    path: Path, schema: Any, partition_by: tuple[str, ...], *, later: bool, **options: Any
) -> TableBuilder:
    """Two commits: one file, then seven of a row each; with ``later`` version 1 has the schema."""
    columns = [Column("id", "long"), Column("p", "string")]
    builder = TableBuilder(open_store(str(path), {}), columns, partition_by=partition_by, **options)
    if later:
        builder.change_metadata()
    builder.append([{"id": 0, "p": "x"}])
    builder.append(*([{"id": number, "p": "x"}] for number in range(1, NUM_FILES)))
    replace_schema(path, 0, schema)
    return builder


def replace_schema(path: Path, version: int, schema: Any) -> None:
    """Change the ``schemaString`` of a commit, or take it away."""
    file = path / commit_path(version)
    actions = [json.loads(line) for line in file.read_bytes().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"].pop("schemaString", None)
            if schema is not ABSENT:
                action["metaData"]["schemaString"] = schema
    file.write_bytes(encode_lines(actions))
