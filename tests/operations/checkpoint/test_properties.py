"""A checkpoint at any version plus the commits after it is the table, whatever the log."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltactl.errors import UnsupportedFeatureError, ignore_warning
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.checkpoint.options import Kind
from deltactl.operations.checkpoint.repair import repair_checkpoints
from deltactl.operations.checkpoint.run import CheckpointOptions, checkpoint_table
from deltactl.operations.run_context import RunContext
from tests.support.clock import FixedClock
from tests.support.random_logs import KINDS, assert_equals_model, logs
from tests.support.run import run_on
from tests.support.table_builder import TableBuilder

pytestmark = pytest.mark.thorough

# Every tombstone stays, as old as it may be: what expires is tested with the clock.
_FOREVER = {"delta.deletedFileRetentionDuration": "interval 10000 weeks"}


def _fail(message: str) -> None:
    pytest.fail(message)


def _features(builder: TableBuilder, version: int | None = None) -> set[str]:
    protocol = builder.state_at(version).protocol
    assert protocol is not None
    return {*protocol.get("readerFeatures", ()), *protocol.get("writerFeatures", ())}


def _forbidden(features: set[str], kind: Kind) -> bool:
    if "other" in features:
        return True
    return kind == "v2" and "v2Checkpoint" not in features


def _draw_options(data: st.DataObject, version: int) -> CheckpointOptions:
    return CheckpointOptions(
        version=version,
        kind=data.draw(st.sampled_from(("auto", "classic", "v2"))),
        sidecar_rows=data.draw(st.integers(1, 4)),
        top_format=data.draw(st.sampled_from(("json", "parquet"))),
        compat=data.draw(st.sampled_from(("default", "spark", "plain"))),
    )


def _checkpoint(data: st.DataObject, builder: TableBuilder, version: int) -> bool:
    """Write a checkpoint, or see it refused; tell which."""
    options = _draw_options(data, version)
    # The protocol of the latest version says who may write to the table.
    features = _features(builder, version) | (_features(builder) & {"other"})
    if _forbidden(features, options.kind):
        with pytest.raises(UnsupportedFeatureError):
            checkpoint_table(
                DeltaLog(builder.store, ignore_warning),
                options,
                RunContext(warn=_fail, clock=FixedClock()),
            )
        return False
    report = run_on(builder.store, checkpoint_table, options, clock=FixedClock())
    state = builder.state_at(version)
    if report.written is not None:
        assert report.written.num_adds == len(state.files)
        assert report.written.num_removes == len(state.tombstones)
        assert report.written.add_bytes == sum(add["size"] for add in state.files.values())
    return True


def _check(data: st.DataObject) -> None:
    builder = data.draw(logs(_FOREVER))
    version = data.draw(st.integers(0, builder.version))
    if version and data.draw(st.booleans()):
        # The stream of an older checkpoint is what the tail is applied to.
        builder.checkpoint(
            data.draw(st.integers(0, version - 1)), data.draw(st.sampled_from(KINDS)), parts=3
        )
    if not _checkpoint(data, builder, version):
        return
    builder.forget_commits(version)
    for wanted in range(version, builder.version + 1):
        snapshot = DeltaLog(builder.store, _fail).snapshot(wanted)
        assert_equals_model(snapshot, builder.state_at(wanted), checkpointed=True)
    repaired = repair_checkpoints(
        DeltaLog(builder.store, ignore_warning),
        RunContext(warn=_fail, clock=FixedClock()),
        dry_run=True,
    )
    assert [f for f in repaired.findings if "_last_checkpoint" not in f.name] == []


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_checkpoint_and_its_tail_equal_replay_from_zero(data: st.DataObject) -> None:
    _check(data)


@pytest.mark.slow
@settings(max_examples=600, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_checkpoint_and_its_tail_equal_replay_from_zero_at_length(data: st.DataObject) -> None:
    _check(data)
