"""Rows of the history have only values that JSON has, whatever the commitInfo contains."""

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from deltactl.cli.output.envelope import PlainRows, dump_json, to_jsonable
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.history.columns import COLUMNS, history_row, json_row

_PLAIN: Final = (str, int, bool, type(None))

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(COLUMNS), values), st.none() | st.integers(0, 2**50))
def test_rows_are_plain(info: dict[str, Any], timestamp_ms: int | None) -> None:
    line = json.dumps({"commitInfo": info}).encode()
    row = json_row(history_row(1, CommitBytes("0.json", line).info, timestamp_ms=timestamp_ms))
    parts = [row, *(value for value in row.values() if isinstance(value, dict))]
    for key, value in (pair for part in parts for pair in part.items()):
        assert type(key) is str
        assert type(value) in _PLAIN or value in parts
    assert to_jsonable([row]) == [row]
    assert dump_json(PlainRows([row])) == dump_json([row])
