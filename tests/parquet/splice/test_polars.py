"""Files of Polars, spliced, and read by Polars. It runs in an environment of its own."""

import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from deltactl.table import Table
from tests.parquet.splice.files import SCHEMA, find_output, make_delta_table, make_table, optimize
from tests.support.object_servers import ensure_python

# Polars has no maps.
_SCHEMA = pa.schema([member for member in SCHEMA if member.name != "map"])

_WRITE = """
import sys
import polars as pl
for number, codec in enumerate(("zstd", "snappy", "lz4")):
    frame = pl.read_ipc(f"{sys.argv[1]}/{number}.arrow")
    frame.write_parquet(f"{sys.argv[2]}/{number}.parquet", row_group_size=1000, compression=codec)
"""

_READ = """
import sys
import polars as pl
made = pl.read_parquet(sys.argv[1])
wanted = pl.concat(pl.read_parquet(f"{sys.argv[2]}/{n}.parquet") for n in range(3))
print(made.equals(wanted), made.height)
lazy = pl.scan_parquet(sys.argv[1])
print(lazy.filter(pl.col("id") == 10250).collect().equals(wanted.filter(pl.col("id") == 10250)))
text = pl.col("text") == "value 17"
print(lazy.filter(text).collect().height == wanted.filter(text).height > 0)
"""


def _run(program: str, *arguments: Path) -> str:
    try:
        python = ensure_python("polars-2.1.0", "polars==2.1.0")
    except subprocess.CalledProcessError:
        pytest.skip("no package index that has Polars, which the tests run as a program of its own")
    command = [str(python), "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def _write_table(folder: Path, scratch: Path) -> None:
    folder.mkdir()
    for number in range(3):
        rows = make_table(start=number * 10_000).select(_SCHEMA.names)
        with pyarrow.ipc.new_file(scratch / f"{number}.arrow", rows.schema) as file:
            file.write_table(rows)
    _run(_WRITE, scratch, folder)
    make_delta_table(folder, sorted(folder.glob("*.parquet")), _SCHEMA)


def test_files_of_polars_are_copied_and_polars_reads_them(tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    for rewrite in ("copy", "encode"):
        folder = tmp_path / rewrite
        _write_table(folder, tmp_path)
        report = optimize(folder, rewrite)
        assert report.rewritten is not None
        assert report.rewritten.groups_copied == (9 if rewrite == "copy" else 0)
        (stats,) = Table(str(folder)).snapshot().files["stats"].to_pylist()
        found[rewrite] = (pq.read_table(find_output(folder)), stats)
    assert found["copy"] == found["encode"]
    rows = pa.concat_tables(make_table(start=number * 10_000) for number in range(3))
    assert found["copy"][0].cast(_SCHEMA).equals(rows.select(_SCHEMA.names))
    folder = tmp_path / "copy"
    assert _run(_READ, find_output(folder), folder).split() == ["True", "9000", "True", "True"]
