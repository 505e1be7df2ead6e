"""The directory of the manifests: that of the table, or another one that records the table.

A run deletes manifests of partitions that its table does not have, so those of another table, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain
from typing import Final

import pyarrow.compute as pc

from deltactl.errors import SafetyError, UnsupportedFeatureError
from deltactl.log.delta_log import DeltaLog
from deltactl.log.table_probe import find_inner_table, has_log
from deltactl.operations.leases import LastRun, read_last_run, write_last_run
from deltactl.operations.manifest.content import render_lines, render_root
from deltactl.operations.manifest.directories import is_seen
from deltactl.option_names import option
from deltactl.protocol.names import MANIFEST_DIR
from deltactl.protocol.path_columns import absolute_mask
from deltactl.storage.store import Store

RECORD: Final = "manifests"
_LINE_BYTES: Final = 1 << 14


def choose_place(table: Store, output: Store | None) -> Store:
    """Return where the manifests are; the store of the table if ``output`` is its directory.

    Raises:
        SafetyError: ``output`` is in a log, is another table, or has manifests of another table.
    """
    # Earlier versions wrote the address as it was given, also to Azure.
    roots = root, _ = tuple(_bare(render_root(it)) for it in (table.engine_uri, table.uri))
    if output is None or _bare(render_root(output.engine_uri)) == root:
        return table
    if find_inner_table(f"{output.uri}/") is not None:
        raise _refusal(f"{output.uri} is inside the log of a table")
    if has_log(output):
        raise _refusal(f"{output.uri} is the directory of another table than {table.uri}")
    name = _find_manifest(output)
    if name is None:
        return output
    last = read_last_run(output, RECORD)
    if last is None:
        owner = _first_line(output, name)
        is_own = not owner or _bare(owner).startswith(roots)
    else:
        owner = last.address
        is_own = _bare(owner) in roots
    if not is_own:
        raise _refusal(
            f"{output.uri}/{MANIFEST_DIR} has manifests of another table than {table.uri}: they "
            f"list {owner}",
            f", or delete {MANIFEST_DIR} there if no engine reads it",
        )
    return output


def _find_manifest(store: Store) -> str | None:
    """Return the name of a manifest, or of another file that engines read as one."""
    return next(
        (name for batch in store.walk(MANIFEST_DIR) for name in batch if is_seen(name)), None
    )


def find_schemes(log: DeltaLog) -> dict[str, str] | None:
    """Return the scheme that the manifests have instead of that of the table, by the latter.

    ``None`` if the table has no manifest. If the first line is outside the table, as in a shallow
    clone, the scheme is that of the file in the log, also of a removed one.

    Raises:
        StorageError: a manifest or the log cannot be read.
        TableError: the log is damaged.
    """
    name = _find_manifest(log.store)
    if name is None:
        return None
    try:
        root = render_root(log.store.engine_uri)
    except UnsupportedFeatureError:  # of the next run that writes manifests
        return {}
    line = _first_line(log.store, name)
    ours: str | None = root.partition(":")[0]
    theirs = line.partition(":")[0]
    if not _bare(line).startswith(_bare(root)):
        is_given = _bare(line).startswith(_bare(render_root(log.uri)))
        ours = None if is_given else _find_scheme(log, _bare(line))
    return {} if ours in (None, theirs) else {ours: theirs}


def _find_scheme(log: DeltaLog, bare: str) -> str | None:
    """Return the scheme that a line of a file outside the table has without replacements."""
    snapshot = log.snapshot()
    for files in chain(snapshot.file_batches(["path"]), snapshot.tombstone_batches(["path"])):
        paths = files["path"].filter(absolute_mask(files["path"]))
        lines = render_lines(paths, log.store.engine_uri, {}, set())
        for line in lines.filter(pc.ends_with(lines, f"/{bare.strip('/')}\n")).to_pylist():
            if _bare(line.rstrip("\n")) == bare:
                return str(line).partition(":")[0]
    return None


def render_command(table: str, schemes: Mapping[str, str]) -> str:
    """Return the command that writes the manifests of a table with their scheme."""
    for ours, theirs in schemes.items():
        return f"`deltactl generate-manifest {table} --scheme-map {ours}={theirs}`"
    return f"`deltactl generate-manifest {table}`"


def record_table(output: Store, run: LastRun) -> None:
    """Record the table of the manifests in another directory before they are written.

    Raises:
        StorageError: it cannot be written.
    """
    last = read_last_run(output, RECORD)
    if last is None or last.address != run.address:
        write_last_run(output, RECORD, run)


def _first_line(store: Store, name: str) -> str:
    return os.fsdecode(store.read_ranges(name, [(0, _LINE_BYTES)])[0].partition(b"\n")[0])


def _bare(address: str) -> str:
    """Return an address without its scheme, which can have several spellings."""
    return address.partition(":")[2].strip("/") + "/"


def _refusal(reason: str, more: str = "") -> SafetyError:
    return SafetyError(
        f"no manifest was written: {reason}",
        hint=f"Rerun with another directory in {option('output_root')}{more}.",
    )
