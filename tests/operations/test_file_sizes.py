import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltactl.operations.file_sizes import EDGES, count_sizes, count_table_sizes

KIB, MIB = 1 << 10, 1 << 20


def test_a_bucket_ends_before_the_next_begins() -> None:
    sizes = np.array([0, 64 * KIB - 1, 64 * KIB, MIB, 5 << 30], np.int64)
    found = count_sizes(sizes, MIB)
    assert found.files[:3] == (2, 1, 1)
    assert (found.files[-1], found.bytes[-1]) == (1, 5 << 30)
    assert (found.small_files, found.small_bytes) == (3, 128 * KIB - 1)
    assert found.small_share == 0.6


def test_buckets_without_files_are_left_out_of_json() -> None:
    found = count_sizes(np.array([MIB, 3 << 30], np.int64), 0).to_dict()
    assert found["histogram"] == [
        {"from_bytes": MIB, "to_bytes": 4 * MIB, "files": 1, "bytes": MIB},
        {"from_bytes": 1 << 30, "to_bytes": None, "files": 1, "bytes": 3 << 30},
    ]
    assert found["small_file_share"] == 0


def test_small_follows_the_target_of_the_table() -> None:
    batches = [pa.table({"size_bytes": pa.array([10 * MIB, None, 100 * MIB])})] * 2
    assert count_table_sizes(batches, 64 * MIB).small == 48 * MIB
    assert count_table_sizes(batches, None).small == 192 * MIB
    assert count_table_sizes(batches, 64 * MIB).small_files == 4
    assert count_table_sizes([], None).num_files == 0


@given(st.lists(st.integers(-5, 1 << 57), max_size=30), st.integers(0, 1 << 40))
def test_every_file_is_in_one_bucket(sizes: list[int], small: int) -> None:
    found = count_sizes(np.array(sizes, np.int64), small)
    assert found.num_files == len(sizes)
    starts = (0, *EDGES)
    for start, end, files in zip(starts, (*EDGES, 1 << 63), found.files, strict=True):
        assert files == sum(start <= max(size, 0) < end for size in sizes)
