"""Paths that delta-rs does not read: which they are, and what is said about them."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltactl import Table, convert
from tests.interop.judges import rows_with_delta_rs

CONTROLS = [*map(chr, range(1, 32)), "\x7f"]
# No other character of ASCII or Latin-1 in a name, nor the escape of one, is in the way.
OTHERS = [*(chr(code) for code in [*range(32, 127), *range(128, 256)] if chr(code) != "/"), "%09"]


def write(root: Path, *names: str) -> None:
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), root / name)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda it: f"{ord(it):02x}")
def test_a_file_that_delta_rs_cannot_read_is_told_of(tmp_path: Path, control: str) -> None:
    name = f"x{control}y.parquet"
    write(tmp_path, name, "z.parquet")
    told: list[str] = []
    convert(tmp_path, dry_run=True, warn=told.append)
    convert(tmp_path, warn=told.append)
    assert told[0] == told[1]
    assert f"1 file has control characters in the path, such as {name!r}" in told[0]
    assert told[0] in Table(tmp_path).check().notes
    with pytest.raises(Exception, match="illegal character sequence"):
        rows_with_delta_rs(tmp_path)


def test_the_command_of_the_note_makes_the_table_readable(tmp_path: Path) -> None:
    write(tmp_path, "p=a\tb/1.parquet", "p=c/1.parquet")
    told: list[str] = []
    convert(tmp_path, warn=told.append)
    assert "p=a\\tb/1.parquet" in told[0]
    table = Table(tmp_path)
    assert table.optimize(zorder_by="id").files_removed == 2
    assert not table.check().notes
    assert len(rows_with_delta_rs(tmp_path)) == 2


def test_other_names_are_read_without_a_word(tmp_path: Path) -> None:
    write(tmp_path, *(f"x{text}y.parquet" for text in OTHERS))
    convert(tmp_path, warn=pytest.fail)
    assert not Table(tmp_path).check().notes
    assert len(rows_with_delta_rs(tmp_path)) == len(OTHERS)
