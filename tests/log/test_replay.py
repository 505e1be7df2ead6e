"""Replay against a model of dictionaries, on random logs in every shape."""

import json
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.log import keyed_hash, replay
from deltactl.log.commits import key_sets, parser
from deltactl.log.commits.contents import CommitBytes
from deltactl.log.commits.parser import CommitParser
from deltactl.log.delta_log import DeltaLog
from deltactl.numpy_types import Hashes
from tests.support.random_logs import KINDS, assert_equals_model, logs
from tests.support.stores import CountingStore, fresh_store
from tests.support.table_builder import LOG, Action, Column, TableBuilder, commit_path, encode_lines

pytestmark = pytest.mark.thorough


def _check_replay(data: st.DataObject) -> None:
    builder = data.draw(logs())
    checkpointed = data.draw(st.booleans())
    if checkpointed:
        for version in data.draw(st.sets(st.integers(0, builder.version), max_size=2)):
            builder.checkpoint(version, data.draw(st.sampled_from(KINDS)), parts=3)
    if builder.version >= 2 and data.draw(st.booleans()):
        for _ in range(data.draw(st.integers(1, 3))):
            first = data.draw(st.integers(0, builder.version - 1))
            builder.compact(first, data.draw(st.integers(first + 1, builder.version)))
    if data.draw(st.booleans()):
        builder.hint(data.draw(st.integers(0, builder.version)))
    wanted = data.draw(st.none() | st.integers(0, builder.version))
    snapshot = DeltaLog(builder.store, lambda message: None).snapshot(wanted)
    assert_equals_model(snapshot, builder.state_at(wanted), checkpointed=checkpointed)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_replay_equals_the_model(data: st.DataObject) -> None:
    _check_replay(data)


@settings(max_examples=20, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_replay_with_many_keys_equals_the_model(data: st.DataObject) -> None:
    """If one half of the hash does not tell two keys apart, the other half does."""
    whole = keyed_hash.hash_pairs

    def cut(keys: pa.ChunkedArray) -> tuple[Hashes, Hashes]:
        first, second = whole(keys)
        return first & np.uint64(3), second

    with (
        patch.object(key_sets, "hash_pairs", cut),
        patch.object(key_sets, "_FEW", 0),
        patch.object(parser, "_CHUNK_BYTES", data.draw(st.sampled_from([1, 3000, 8 << 20]))),
    ):
        _check_replay(data)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_replay_of_a_tail_on_disk_equals_the_model(data: st.DataObject) -> None:
    """From any commit on, with any number of parts in memory."""
    with (
        patch.object(replay, "_HELD_BYTES", data.draw(st.sampled_from([0, 2000, 10_000]))),
        patch.object(parser, "_CHUNK_BYTES", data.draw(st.sampled_from([1, 3000]))),
    ):
        _check_replay(data)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_replay_equals_the_model_at_length(data: st.DataObject) -> None:
    _check_replay(data)


def _quirky(action: Action, quirk: str) -> bytes:
    """The same action in another valid spelling, such as takes the slow way through the parser."""
    ((name, body),) = action.items()
    plain = json.dumps(action)
    match quirk:
        case "fraction" if "size" in body and body["size"] < 2**50:
            plain = plain.replace(f'"size": {body["size"]}', f'"size": {body["size"]}.0')
        case "unknown field":
            plain = json.dumps({name: {**body, "neverHeardOf": {"x": [1, {"y": None}]}}})
        case "unknown action":
            plain += '\n{"neverHeardOf": {"path": "zzz", "size": "big"}}'
        case "blank line":
            plain += "\n\n  "
        case "windows":
            plain += "\r"
        case "duplicate" if "size" in body:
            plain = plain.replace('"size"', '"size": 7, "size"')
        case _:
            plain = _dumped(action, quirk)
    return plain.encode() + b"\n"


def _dumped(action: Action, quirk: str) -> str:
    ((name, body),) = action.items()
    match quirk:
        case "null members":
            return json.dumps({**dict.fromkeys(("add", "remove", "txn")), **action})
        case "ascii":
            return json.dumps(action, ensure_ascii=False)
        case "spaces":
            return f"  {json.dumps(action, indent=None, separators=(' , ', ' : '))} "
        case "order":
            return json.dumps({name: dict(reversed(body.items()))})
        case _:
            return json.dumps(action)


_QUIRKS = (
    "fraction", "unknown field", "unknown action", "blank line", "windows", "null members",
    "ascii", "spaces", "order", "duplicate", "none",
)  # fmt: skip


def _check_spelling(data: st.DataObject) -> None:
    builder = data.draw(logs())
    for version, actions in enumerate(builder.commits):
        text = b"".join(
            _quirky(action, data.draw(st.sampled_from(_QUIRKS)))
            for action in actions
            if "commitInfo" not in action
        )
        text = text if data.draw(st.booleans()) else text.rstrip(b"\n")
        builder.store.put(commit_path(version), text or b'{"commitInfo":{}}')
    snapshot = DeltaLog(builder.store, lambda message: None).snapshot()
    assert_equals_model(snapshot, builder.state, checkpointed=False)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_way_through_the_parser_changes_nothing(data: st.DataObject) -> None:
    _check_spelling(data)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_the_way_through_the_parser_changes_nothing_at_length(data: st.DataObject) -> None:
    _check_spelling(data)


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_parsing_in_any_number_of_calls_gives_the_same(data: st.DataObject) -> None:
    builder = data.draw(logs())
    files = [
        CommitBytes(commit_path(v), encode_lines(actions))
        for v, actions in enumerate(builder.commits)
    ]
    cut = data.draw(st.integers(0, len(files)))
    parser = CommitParser()
    parts = [*parser.parse(files[:cut]), *parser.parse(files[cut:])]
    together = list(CommitParser().parse(files))
    for name in ("adds", "removes"):
        apart = pa.concat_tables([getattr(part, name) for part in parts])
        whole = pa.concat_tables([getattr(part, name) for part in together])
        assert apart.column("path").to_pylist() == whole.column("path").to_pylist()
        assert apart.column("stats").to_pylist() == whole.column("stats").to_pylist()


def test_each_file_of_the_log_is_read_once() -> None:
    """One listing; the hint, the checkpoint and each commit after it once."""
    store = fresh_store()
    builder = TableBuilder(store, [Column("id")])
    for number in range(6):
        builder.append([{"id": number}])
    builder.checkpoint(3)
    builder.hint(3)
    counting = CountingStore(store)
    snapshot = DeltaLog(counting, lambda message: pytest.fail(message)).snapshot()
    assert counting.calls == {"list_from": 1, "read": 1, "read_many": 1, "open_input": 1}
    assert counting.names["read"] == [f"{LOG}/_last_checkpoint"]
    assert counting.names["read_many"] == [commit_path(v) for v in (4, 5, 6)]
    assert snapshot.num_files == 6
    assert counting.calls["open_input"] == 2
    assert snapshot.files.num_rows == 6
    assert counting.calls["open_input"] == 3
    assert counting.calls.total() == 6
