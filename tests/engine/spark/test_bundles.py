"""How tasks are packed for Spark."""

from hypothesis import given
from hypothesis import strategies as st

from deltactl.engine.base import Task
from deltactl.engine.spark.bundles import (
    FULL_BUNDLE_WEIGHT,
    Job,
    PackedTask,
    choose_bundle_weight,
    decode_bundle,
    encode_bundle,
    iter_bundles,
    pack_task,
    split_lost_job,
    take_job,
    unpack_payload,
)

MIB = 1 << 20

TASKS = st.lists(st.tuples(st.integers(0, 200 * MIB), st.integers(0, 3 * MIB)), max_size=60).map(
    lambda pairs: [
        PackedTask(number, weight, bytes(size)) for number, (weight, size) in enumerate(pairs)
    ]
)


@given(TASKS, st.integers(4 * MIB, FULL_BUNDLE_WEIGHT), st.integers(1, 8))
def test_every_task_travels_once_in_order_and_within_bounds(
    tasks: list[PackedTask], full: int, most: int
) -> None:
    bundles = iter_bundles(iter(tasks), full)
    jobs: list[Job] = []
    while job := take_job(bundles, most):
        jobs.append(job)
    assert [task for job in jobs for bundle in job for task in bundle] == tasks
    for job in jobs:
        assert len(job) <= most
        for bundle in job:
            assert len(bundle) == 1 or sum(task.weight_bytes for task in bundle) <= full
            assert len(bundle) == 1 or sum(len(task.payload) for task in bundle) <= MIB
        # The last bundle may pass the bound, the others may not.
        assert sum(len(t.payload) for bundle in job[:-1] for t in bundle) < 4 * MIB


def test_heavy_tasks_are_alone_and_light_ones_share() -> None:
    weights = [1, 1, FULL_BUNDLE_WEIGHT, 1, 10 * FULL_BUNDLE_WEIGHT]
    tasks = (PackedTask(number, weight, b"") for number, weight in enumerate(weights))
    bundles = [[t.id for t in bundle] for bundle in iter_bundles(tasks, FULL_BUNDLE_WEIGHT)]
    assert bundles == [[0, 1], [2], [3], [4]]


def test_ten_thousand_tasks_of_no_weight_become_few() -> None:
    full = choose_bundle_weight(10_000, 0, slots=2)
    assert len(list(iter_bundles((PackedTask(n, 0, b"x") for n in range(10_000)), full))) == 40
    assert choose_bundle_weight(16, 0, slots=2) < choose_bundle_weight(1_000, 0, slots=2)
    assert choose_bundle_weight(400, 100 << 30, slots=2) == FULL_BUNDLE_WEIGHT


@given(st.dictionaries(st.text(), st.integers()), st.integers(0, 10))
def test_payloads_come_back(payload: dict[str, int], number: int) -> None:
    packed = pack_task(Task(number, payload, 5))
    assert packed.weight_bytes == 5
    ((task_id, data),) = decode_bundle(encode_bundle((packed,)))
    assert (task_id, unpack_payload(data)) == (number, payload)


@given(st.integers(1, 200), st.integers(0, 199), st.integers(1, 8))
def test_a_bad_task_stands_alone_after_few_losses(count: int, bad: int, width: int) -> None:
    """Halving finds it, whoever shared its job, and loses nobody on the way."""
    bad %= count
    tasks = [PackedTask(number, 1, b"") for number in range(count)]
    bundles = [tuple(tasks[start : start + width]) for start in range(0, count, width)]
    queue: list[Job] = [tuple(bundles)]
    done: list[int] = []
    losses = 0
    while queue:
        job = queue.pop()
        ids = [task.id for bundle in job for task in bundle]
        if bad not in ids:
            done += ids
            continue
        losses += 1
        parts = split_lost_job(job, tries=2)
        if len(ids) == 1:
            assert parts == [((PackedTask(bad, 1, b"", tries=2),),)]
            done += ids
        else:
            assert sorted(t.id for part in parts for b in part for t in b) == sorted(ids)
            queue += parts
    assert sorted(done) == list(range(count))
    assert losses <= 2 + width.bit_length()
