"""Find ambiguous commits: repeated actions, and lines with several actions.

Source: PROTOCOL.md, "Delta Log Entries", "Action Reconciliation".
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltactl.log.commits.columns import ACTIONS, CommitLines
from deltactl.log.commits.contents import find_actions
from deltactl.log.commits.file_actions import file_keys
from deltactl.log.commits.json_lines import list_actions, list_key_sets
from deltactl.log.commits.parsed import ParsedCommits

_ONCE: Final = {"protocol": None, "metaData": None, "txn": "appId", "domainMetadata": "domain"}
"""Actions that a commit may have once, or once per value of the field."""

_CHECKPOINTS_ONLY: Final = ("checkpointMetadata", "sidecar")
# Finds candidates, because it takes too long to parse each line. A match may be a part of a text:
# `find_shared_lines` parses the lines that it finds.
_LATER_ACTION: Final = re.compile(rb',\s*"(?:%b)"\s*:' % "|".join(ACTIONS).encode())


def find_repeats(name: str, data: bytes) -> Iterator[str]:
    """Yield non-file actions that a commit repeats or may not have.

    Raises:
        CorruptLogError: a line is not JSON.
    """
    for action, member in _ONCE.items():
        subjects = Counter(
            "" if member is None else f" of {node.get(member)!r}"
            for node in find_actions(name, data, action)
        )
        for subject, times in subjects.items():
            if times > 1:
                yield f"it has {times} {action} actions{subject}"
    for action in _CHECKPOINTS_ONLY:
        if next(find_actions(name, data, action), None) is not None:
            yield f"it has a {action} action, which only checkpoints may have"


def find_shared_lines(data: bytes, info: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield each line with more than one action, and its writer from ``info`` (commitInfo)."""
    starts = (data.rfind(b"\n", 0, found.start()) + 1 for found in _LATER_ACTION.finditer(data))
    writer = (info or {}).get("engineInfo")
    # A line may have several matches.
    for start in dict.fromkeys(starts):
        try:
            end = data.find(b"\n", start)
            line = data[start : len(data) if end < 0 else end]
            pairs: Any = json.loads(line, object_pairs_hook=list)
        except (ValueError, RecursionError):
            continue  # parsing reports it
        if not isinstance(pairs, list):
            continue
        # An array is a list too, but not of pairs.
        members = [pair for pair in pairs if isinstance(pair, tuple)]
        if len(actions := list_actions(members)) > 1:
            number = data.count(b"\n", 0, start) + 1
            by = f"written by {writer!r}" if writer else "its commitInfo does not name the writer"
            yield f"line {number} has several actions: {', '.join(actions)}; {by}"


def find_file_repeats(parsed: ParsedCommits) -> Iterator[tuple[int, str]]:
    """Yield commits, by version, that add a file twice, or add and remove it.

    A row delete removes and adds the same path, but with another deletion vector.
    """
    actions = pa.concat_tables(
        pa.table({
            "version": files["version"],
            "key": file_keys(files),
            "path": files["path"],
            "adds": pa.array(np.full(files.num_rows, adds, np.int64)),
        })
        for files, adds in ((parsed.adds, 1), (parsed.removes, 0))
    )  # fmt: skip
    files = actions.group_by(["version", "key"]).aggregate(
        [("adds", "sum"), ("adds", "count"), ("path", "min")]
    )
    adds, count = files["adds_sum"], files["adds_count"]
    odd = {
        "adds and removes": pc.and_(pc.greater(adds, 0), pc.greater(count, adds)),
        "adds more than once": pc.greater(adds, 1),
    }
    for what, rows in odd.items():
        found = files.filter(rows).group_by("version")
        for row in found.aggregate([("path_min", "min"), ("path_min", "count")]).to_pylist():
            more = row["path_min_count"] - 1
            others = f" and {more} more" if more else ""
            yield row["version"], f"it {what} {row['path_min_min']!r}{others}"


def list_partition_keys(data: bytes) -> frozenset[frozenset[str]]:
    """Return the distinct sets of keys in ``partitionValues`` of a commit's adds.

    Removes may omit keys, and may have keys of an older partitioning.
    """
    # In a table without partition columns, no line is parsed.
    if data.count(b'"partitionValues"') == data.count(b'"partitionValues":{}'):
        return frozenset([frozenset()] if b'{"add":' in data else [])
    return list_key_sets(CommitLines([data]).take("add"))
