"""Log file names: each kind there and back, and what is left alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltactl.protocol.names import (
    CheckpointFile,
    ChecksumFile,
    CommitFile,
    CompactedFile,
    LogFile,
    checkpoint_name,
    checksum_name,
    commit_name,
    compacted_name,
    parse_log_name,
    version_prefix,
)

V7 = "00000000000000000007"
UNIQUE_ID = "80a083e8-7026-4e79-81be-64bd76c43a11"


@pytest.mark.parametrize(
    ("name", "file"),
    [
        (f"{V7}.json", CommitFile(7)),
        (f"{V7}.crc", ChecksumFile(7)),
        (f"{V7}.checkpoint.parquet", CheckpointFile(7, "classic", None, None, "parquet")),
        (f"{V7}.checkpoint.0000000002.0000000003.parquet",
            CheckpointFile(7, "multipart", 2, 3, "parquet")),
        (f"{V7}.checkpoint.{UNIQUE_ID}.json",
            CheckpointFile(7, "uuid", None, None, "json")),
        (f"{V7}.checkpoint.{UNIQUE_ID}.parquet",
            CheckpointFile(7, "uuid", None, None, "parquet")),
        (f"{V7}.00000000000000000009.compacted.json", CompactedFile(7, 9)),
        ("09223372036854775807.json", CommitFile(2**63 - 1)),
    ],
)  # fmt: skip
def test_each_kind_is_recognized(name: str, file: LogFile) -> None:
    assert parse_log_name(name) == file


@pytest.mark.parametrize(
    "name",
    [
        "", "_last_checkpoint", "_sidecars",
        f".{V7}.json.crc",
        f".{V7}.json.80a083e8.tmp",
        f"{V7}.json.tmp",
        f"{V7}.jsonx",
        f"{V7}.json\n",
        f"{V7}.{UNIQUE_ID}.json",
        f"{V7}.checkpoint.json",
        f"{V7}.checkpoint.parquet.crc",
        f"{V7}.checkpoint.0000000000.0000000003.parquet",
        f"{V7}.checkpoint.0000000004.0000000003.parquet",
        f"{V7}.checkpoint.a.b.parquet",
        f"{V7}.00000000000000000006.compacted.json",
        f"{V7}.99999999999999999999.compacted.json",
        "7.json",
        f"0{V7}.json",
        "09223372036854775808.json", "99999999999999999999.json", "99999999999999999999.crc",
        "٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٠٧.json", "²0000000000000000000.json", "-0000000000000000007.json",
    ],
)  # fmt: skip
def test_other_names_are_ignored(name: str) -> None:
    assert parse_log_name(name) is None


versions = st.integers(0, 2**63 - 2)


@given(versions, st.integers(1, 99), st.integers(0, 99))
def test_what_is_written_is_read(version: int, part: int, more: int) -> None:
    parts = part + more
    assert parse_log_name(commit_name(version)) == CommitFile(version)
    assert parse_log_name(checksum_name(version)) == ChecksumFile(version)
    assert parse_log_name(compacted_name(version, version + 1)) == CompactedFile(
        version, version + 1
    )
    classic = CheckpointFile(version, "classic", None, None, "parquet")
    assert parse_log_name(checkpoint_name(version)) == classic
    multipart = CheckpointFile(version, "multipart", part, parts, "parquet")
    name = f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"
    assert parse_log_name(name) == multipart
    with_id = CheckpointFile(version, "uuid", None, None, "json")
    assert parse_log_name(checkpoint_name(version, UNIQUE_ID, "json")) == with_id


@given(versions)
def test_a_listing_from_the_prefix_sees_all_of_the_version_in_order(version: int) -> None:
    names = [
        compacted_name(version, version + 1),
        checkpoint_name(version),
        checksum_name(version),
        commit_name(version),
    ]
    assert sorted(names) == names
    assert all(name >= version_prefix(version) for name in names)
    assert version == 0 or commit_name(version - 1) < version_prefix(version)


@given(st.text())
def test_no_name_raises(name: str) -> None:
    parse_log_name(name)
