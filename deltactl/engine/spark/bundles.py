"""Pack tasks into bundles for Spark: small tasks together, in jobs of bounded size.

A bundle is the work of one Spark task: one large task, or small tasks up to a total weight. A
Python task of Spark costs about 35 ms even if it does nothing. So ten thousand small tasks must not
become ten thousand Spark tasks.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from deltactl.engine.base import P, Task

FULL_BUNDLE_WEIGHT = 64 << 20
_LEAST_BUNDLE_WEIGHT = 4 << 20
# The weight of a task that does not give one, such as a listing or a few requests.
_LEAST_TASK_WEIGHT = 256 << 10
_BUNDLES_PER_SLOT = 8
_BUNDLE_BYTES = 1 << 20
_JOB_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class PackedTask:
    """A task as bytes; ``tries`` counts its failed attempts."""

    id: int
    weight_bytes: int
    payload: bytes
    tries: int = 0


Bundle = tuple[PackedTask, ...]
Job = tuple[Bundle, ...]


def pack_task(task: Task[P]) -> PackedTask:
    """Pickle and compress a task: file names shrink to a fifth of their size or less."""
    payload = zlib.compress(pickle.dumps(task.payload, pickle.HIGHEST_PROTOCOL), 1)
    return PackedTask(task.id, task.weight_bytes, payload)


def encode_bundle(bundle: Bundle) -> bytes:
    """Return the bytes of a bundle, for one row of a job."""
    return pickle.dumps([(task.id, task.payload) for task in bundle], pickle.HIGHEST_PROTOCOL)


def decode_bundle(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the packed payload of each task of a bundle."""
    yield from pickle.loads(data)


def unpack_payload(data: bytes) -> object:
    """Return the payload that ``pack_task`` packed."""
    return pickle.loads(zlib.decompress(data))


def choose_bundle_weight(num_tasks: int, total_bytes: int, slots: int) -> int:
    """Return the weight of a full bundle: each slot gets several, so that slots end together."""
    even = max(total_bytes, num_tasks * _LEAST_TASK_WEIGHT) // (_BUNDLES_PER_SLOT * slots)
    return max(_LEAST_BUNDLE_WEIGHT, min(FULL_BUNDLE_WEIGHT, even))


def iter_bundles(tasks: Iterator[PackedTask], full_weight: int) -> Iterator[Bundle]:
    """Yield bundles in the order of the tasks. A task of ``full_weight`` is alone in its bundle."""
    bundle: list[PackedTask] = []
    weight = size = 0
    for task in tasks:
        cost = max(task.weight_bytes, _LEAST_TASK_WEIGHT)
        if bundle and (weight + cost > full_weight or size + len(task.payload) > _BUNDLE_BYTES):
            yield tuple(bundle)
            bundle, weight, size = [], 0, 0
        bundle.append(task)
        weight += cost
        size += len(task.payload)
    if bundle:
        yield tuple(bundle)


def take_job(bundles: Iterator[Bundle], most: int) -> Job:
    """Return the next job: bundles until their number or their total size reaches the limit."""
    job: list[Bundle] = []
    size = 0
    while len(job) < most and size < _JOB_BYTES:
        bundle = next(bundles, None)
        if bundle is None:
            break
        job.append(bundle)
        size += sum(len(task.payload) for task in bundle)
    return tuple(job)


def split_lost_job(job: Job, tries: int) -> list[Job]:
    """Return the jobs that replace a job whose workers died, to find the task that fails.

    If the job has several bundles, each bundle becomes a separate job. A single bundle is halved. A
    single task is run again until its ``tries`` are used up.
    """
    if len(job) > 1:
        return [(bundle,) for bundle in job]
    (bundle,) = job
    if len(bundle) > 1:
        middle = len(bundle) // 2
        return [(bundle[:middle],), (bundle[middle:],)]
    return [((replace(bundle[0], tries=bundle[0].tries + tries),),)]
