"""Find the keys of ``partitionValues`` in a commit, without parsing its file actions.

Parsed file actions have a column for every key that occurs in any of them. Only the text shows
which keys an action lacks, and which additional keys it has.
"""

from __future__ import annotations

import json
import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_PARTITION_VALUES: Final = re.compile(
    rb'"partitionValues"\s*:\s*(\{(?:[^"{}]|"(?:[^"\\]|\\.)*")*\})', re.DOTALL
)
_TEXT: Final = r'"(?:[^"\\]|\\.)*"'
_PAIR: Final = rf'({_TEXT})\s*:\s*(?:{_TEXT}|[^,"}}]+)'


def list_key_sets(data: bytes | bytearray) -> frozenset[frozenset[str]]:
    """Return the distinct sets of keys, physical names, of the file actions in a text."""
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
