"""Find the partition columns of commits, and the keys of ``partitionValues`` in their texts.

Parsed file actions have a column for every key that any of them has. Only the text shows which keys
one action lacks, and which additional keys it has.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from deltactl.errors import MALFORMED, CorruptLogError
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.json_lines import parse_line, parse_node
from deltactl.protocol.actions import parse_metadata

_PARTITION_VALUES: Final = re.compile(
    rb'"partitionValues"\s*:\s*(\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})', re.DOTALL
)
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_PAIR: Final = rf'({_TEXT})\s*:\s*(?:{_TEXT}|[^,"}}]+)'


def list_key_sets(data: bytes | bytearray) -> frozenset[frozenset[str]]:
    """Return the distinct sets of partition keys (physical names) of the file actions in a text."""
    texts = {text.decode("utf-8", "replace") for text in set(_PARTITION_VALUES.findall(data))}
    shapes = pc.unique(
        pc.replace_substring_regex(
            pa.array(list(texts), pa.string()), pattern=_PAIR, replacement=r"\1:0"
        )
    )
    found = set()
    for shape in shapes.to_pylist():
        try:
            found.add(frozenset(json.loads(shape)))
        except ValueError:
            continue
    return frozenset(found)


def keys_of_nodes(files: Sequence[CommitBytes], nodes: Sequence[dict[str, Any]]) -> frozenset[str]:
    """Return the partition keys of all ``metaData`` actions among the non-file actions.

    Raises:
        CorruptLogError: an action is malformed; the message has the file and the line.
    """
    try:
        found = [node["metaData"] for node in nodes if isinstance(node.get("metaData"), dict)]
        return frozenset(key for it in found for key in parse_metadata(it).partition_keys)
    except (CorruptLogError, *MALFORMED):
        find_partition_keys(files)  # the error of this function names the line
        raise


def find_partition_keys(files: Sequence[CommitBytes]) -> frozenset[str]:
    """Return the partition keys of all ``metaData`` actions; read the files line by line.

    Raises:
        CorruptLogError: an action is malformed; the message has the file and the line.
    """
    keys: set[str] = set()
    for file in files:
        if b'"metaData"' not in file.data:
            continue
        for number, line in enumerate(file.data.splitlines(), 1):
            if b'"metaData"' in line:
                action = parse_line(file.name, number, line)
                if isinstance(node := action.get("metaData"), dict):
                    metadata = parse_node(file.name, number, parse_metadata, node)
                    keys |= set(metadata.partition_keys)
    return frozenset(keys)
