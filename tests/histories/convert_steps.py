"""A directory of Parquet files that deltactl makes a table."""

import random
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from deltactl import ConvertOptions, PartitionColumn, convert
from deltactl.errors import ignore_warning
from deltactl.protocol.schema import PrimitiveType
from tests.histories.plan import History
from tests.histories.rows import arrow_schema, make_pools, random_rows

_TYPES = {
    "STRING": "string",
    "INT": "integer",
    "DATE": "date",
    "BOOLEAN": "boolean",
    "DECIMAL(10,2)": "decimal(10,2)",
    "TIMESTAMP": "timestamp",
}


def create(history: History, path: Path) -> None:
    """Write some files, and convert the directory."""
    chance = random.Random(history.seed)
    schema = arrow_schema(history.columns)
    pools = make_pools(history.seed, schema, history.partition_by)
    for number in range(3):
        _write(
            path, random_rows(chance, schema, -1000 * (number + 1), 10, pools), history.partition_by
        )
    types = {column.name: column.type for column in history.columns}
    convert(
        str(path),
        ConvertOptions(
            partition_by=tuple(
                PartitionColumn(name, PrimitiveType(_TYPES[types[name]]))
                for name in history.partition_by
            ),
            properties=history.properties(),
        ),
        warn=ignore_warning,
    )


def _write(path: Path, rows: pa.Table, partition_by: tuple[str, ...]) -> None:
    """Write files as Hive lays them out: one for each combination of partition values."""
    values = list(zip(*(rows[name].to_pylist() for name in partition_by), strict=True))
    values = values or [()] * rows.num_rows
    for number, one in enumerate(sorted(set(values), key=repr)):
        chosen = rows.filter(pa.array([value == one for value in values]))
        pairs = zip(partition_by, one, strict=True)
        folder = path.joinpath(*(f"{quote(n, safe='')}={_folder_text(v)}" for n, v in pairs))
        folder.mkdir(parents=True, exist_ok=True)
        first = rows["k"][0].as_py()
        pq.write_table(
            chosen.drop_columns(list(partition_by)), folder / f"{first}-{number}.parquet"
        )


def _folder_text(value: object) -> str:
    if value is None or value == "":
        return "__HIVE_DEFAULT_PARTITION__"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text.removesuffix("+00:00"), safe="")
