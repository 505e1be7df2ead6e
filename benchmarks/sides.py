"""The program that each side runs as a whole process, given the path of the table."""

from __future__ import annotations

import sys
from pathlib import Path

OURS_LOAD = """
import sys
from deltactl import Table

snapshot = Table(sys.argv[1]).snapshot()
print(snapshot.version, snapshot.num_files, snapshot.size_bytes)
"""

OURS_LOAD_COLUMNS = """
import sys
from deltactl import Table

snapshot = Table(sys.argv[1]).snapshot()
files = snapshot.files
print(snapshot.version, files.num_rows, files["size_bytes"].to_numpy().sum())
"""

# `get_add_actions` is the cheapest call that tells number and bytes of the files; `file_uris`
# makes a Python text of each and takes longer.
THEIRS_LOAD = """
import sys
from deltalake import DeltaTable

table = DeltaTable(sys.argv[1])
files = table.get_add_actions()
print(table.version(), files.num_rows, files["size_bytes"].to_numpy().sum())
"""

THEIRS_OPEN = """
import sys
from deltalake import DeltaTable

print(DeltaTable(sys.argv[1]).get_add_actions().num_rows)
"""

THEIRS_HISTORY = """
import json, sys
from deltalake import DeltaTable

limit = int(sys.argv[2]) if len(sys.argv) > 2 else None
print(json.dumps(DeltaTable(sys.argv[1]).history(limit), default=str))
"""

THEIRS_OPTIMIZE = """
import json, sys
from deltalake import DeltaTable, WriterProperties

target, codec = int(sys.argv[2]), sys.argv[3]
level = int(sys.argv[4]) if len(sys.argv) > 4 else None
properties = WriterProperties(compression=codec, compression_level=level)
table = DeltaTable(sys.argv[1])
print(json.dumps(table.optimize.compact(target_size=target, writer_properties=properties)))
"""

THEIRS_ZORDER = """
import json, sys
from deltalake import DeltaTable, WriterProperties

target, codec, columns = int(sys.argv[2]), sys.argv[3], sys.argv[4].split(",")
table = DeltaTable(sys.argv[1])
properties = WriterProperties(compression=codec)
found = table.optimize.z_order(columns, target_size=target, writer_properties=properties)
print(json.dumps(found))
"""

# delta-rs lists deletion vectors that are in use too, and would delete them.
THEIRS_VACUUM = """
import sys
from deltalake import DeltaTable

found = DeltaTable(sys.argv[1]).vacuum(retention_hours=168, dry_run=True, full=True)
print(sum(not name.startswith("deletion_vector_") for name in found))
"""

THEIRS_CHECKPOINT = """
import sys
from deltalake import DeltaTable

table = DeltaTable(sys.argv[1])
table.create_checkpoint()
print(table.version())
"""

THEIRS_RESTORE = """
import json, sys
from deltalake import DeltaTable

print(json.dumps(DeltaTable(sys.argv[1]).restore(10)))
"""

THEIRS_CONVERT = """
import sys
from deltalake import convert_to_deltalake

convert_to_deltalake(sys.argv[1])
"""

THEIRS_MANIFEST = """
import sys
from deltalake import DeltaTable

DeltaTable(sys.argv[1]).generate()
"""


def python(program: str, *arguments: str) -> list[str]:
    """A Python process that runs a program."""
    return [sys.executable, "-c", program, *arguments]


def deltactl(*arguments: str) -> list[str]:
    """The installed command."""
    return [str(Path(sys.executable).with_name("deltactl")), *arguments]
