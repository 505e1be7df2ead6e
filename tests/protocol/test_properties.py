"""Read values of table properties: the units of sizes, and values that are ignored."""

import pytest

from deltactl.operations.optimize.options import CODEC_LEVELS
from deltactl.protocol.properties import CODECS, TableProperties, parse_property_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("1000", 1000),
        (" 7 ", 7),
        ("10b", 10),
        ("2k", 2 << 10),
        ("2kb", 2 << 10),
        ("2KB", 2 << 10),
        ("100m", 100 << 20),
        ("100mb", 100 << 20),
        ("100MB", 100 << 20),
        ("1g", 1 << 30),
        ("1Gb", 1 << 30),
        ("1tb", 1 << 40),
        ("1pb", 1 << 50),
        ("128MiB", 128 << 20),
        ("1.5 GiB", 3 << 29),
    ],
)
def test_units_of_sizes_are_those_of_spark(text: str, size_bytes: int) -> None:
    assert parse_property_size(text) == size_bytes


@pytest.mark.parametrize(
    ("key", "text", "attribute", "default"),
    [
        ("targetFileSize", "1 MBytes", "target_file_size", None),
        ("targetFileSize", "0", "target_file_size", None),
        ("parquet.compression.codec", "lz9", "compression_codec", None),
        ("parquet.compression.codec", "lzo", "compression_codec", None),
        ("checkpointInterval", "abc", "checkpoint_interval", 10),
        ("checkpointInterval", "0", "checkpoint_interval", 10),
        ("checkpointPolicy", "v3", "checkpoint_policy", "classic"),
        ("dataSkippingNumIndexedCols", "all", "indexed_columns_count", 32),
        ("setTransactionRetentionDuration", "1 month", "txn_retention_ms", None),
    ],
)
def test_an_invalid_value_is_ignored_with_a_warning(
    key: str, text: str, attribute: str, default: object
) -> None:
    said: list[str] = []
    properties = TableProperties({f"delta.{key}": text}, said.append)
    assert getattr(properties, attribute) == default
    assert len(said) == 1
    assert said[0].startswith(f"the table property delta.{key} is ignored: ")
    assert repr(text) in said[0]


@pytest.mark.parametrize(
    ("configuration", "attribute", "value"),
    [
        ({}, "target_file_size", None),
        ({"delta.targetFileSize": "64mb"}, "target_file_size", 64 << 20),
        ({"delta.parquet.compression.codec": "LZ4_RAW"}, "compression_codec", "lz4"),
        ({"delta.checkpointInterval": "5"}, "checkpoint_interval", 5),
        ({"DELTA.CHECKPOINTPOLICY": "V2"}, "checkpoint_policy", "v2"),
    ],
)
def test_nothing_is_said_of_a_valid_value(
    configuration: dict[str, str], attribute: str, value: object
) -> None:
    assert getattr(TableProperties(configuration, pytest.fail), attribute) == value


def test_the_codecs_of_properties_are_those_of_the_option() -> None:
    assert set(CODECS.values()) == CODEC_LEVELS.keys()
