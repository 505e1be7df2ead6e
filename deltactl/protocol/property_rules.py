"""Which table properties can be set, to which values, and which feature a value needs.

Source: PROTOCOL.md, "Table properties"; the checks of ALTER TABLE in Delta on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from deltactl.errors import SafetyError, UsageError
from deltactl.protocol.actions import Metadata
from deltactl.protocol.features import COLUMN_MAPPING, REGISTRY, V2_CHECKPOINT
from deltactl.protocol.properties import TableProperties, parse_property_size
from deltactl.suggest import with_suggestion
from deltactl.units import DAY_MS, HOUR_MS, parse_duration

MANIFESTS_KEY: Final = "delta.compatibility.symlinkFormatManifest.enabled"

Parse: TypeAlias = Callable[[str], str]

# Delta on Spark cannot read a table with larger numbers.
_MOST: Final = 2**31 - 1
_LONGEST_MS: Final = 100_000_000 * DAY_MS
_UNITS: Final = {"days": DAY_MS, "hours": HOUR_MS, "minutes": 60_000, "seconds": 1000}


def _choice(text: str, *choices: str) -> str:
    for choice in choices:
        if choice.lower() == text.strip().lower():
            return choice
    raise UsageError(f"{text!r} is not possible", hint=f"Use one of: {', '.join(choices)}.")


def _whole(text: str, least: int) -> str:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= _MOST:
        raise UsageError(f"{text!r} is not possible", hint=f"Use a whole number from {least} on.")
    return str(number)


def _interval(text: str) -> str:
    """Return a duration as Delta on Spark reads it, which does not read "30d"."""
    ms = parse_duration(text)
    if ms > _LONGEST_MS:
        raise UsageError(f"duration {text!r} is too long", hint="Use at most 100000000 days.")
    for unit, length in _UNITS.items():
        if ms % length == 0:
            return f"interval {ms // length} {unit}"
    return f"interval {ms} milliseconds"


def _size(text: str) -> str:
    """Return the bytes without a unit, which all writers read."""
    return str(parse_property_size(text))


def _flag(text: str) -> str:
    return _choice(text, "true", "false")


RULES: Final[Mapping[str, Parse]] = {
    "delta.appendOnly": _flag,
    "delta.autoOptimize.autoCompact": _flag,
    "delta.autoOptimize.optimizeWrite": _flag,
    "delta.checkpoint.writeStatsAsJson": _flag,
    "delta.checkpoint.writeStatsAsStruct": _flag,
    "delta.checkpointInterval": partial(_whole, least=1),
    "delta.checkpointPolicy": lambda text: _choice(text, "classic", "v2"),
    "delta.checkpointRetentionDuration": _interval,
    "delta.columnMapping.mode": lambda text: _choice(text, "none", "name", "id"),
    MANIFESTS_KEY: _flag,
    "delta.dataSkippingNumIndexedCols": partial(_whole, least=-1),
    "delta.dataSkippingStatsColumns": str,
    "delta.dataSkippingStringPrefixLength": partial(_whole, least=0),
    "delta.deletedFileRetentionDuration": _interval,
    "delta.dropFeatureTruncateHistory.retentionDuration": _interval,
    "delta.enableChangeDataFeed": _flag,
    "delta.enableDeletionVectors": _flag,
    "delta.enableExpiredLogCleanup": _flag,
    "delta.enableFullRetentionRollback": _flag,
    "delta.enableInCommitTimestamps": _flag,
    "delta.enableMaterializePartitionColumnsFeature": _flag,
    "delta.enableRowTracking": _flag,
    "delta.enableTypeWidening": _flag,
    "delta.enableVariantShredding": _flag,
    "delta.isolationLevel": lambda text: _choice(text, "Serializable"),
    "delta.logRetentionDuration": _interval,
    "delta.parquet.compression.codec": lambda text: _choice(
        text, "uncompressed", "snappy", "gzip", "zstd", "lz4", "lz4_raw", "brotli", "lzo"
    ),
    "delta.parquet.format.version": lambda text: _choice(text, "1.0.0", "2.12.0"),
    "delta.randomPrefixLength": partial(_whole, least=1),
    "delta.randomizeFilePrefixes": _flag,
    "delta.sampleRetentionDuration": _interval,
    "delta.setTransactionRetentionDuration": _interval,
    "delta.targetFileSize": _size,
    "delta.tuneFileSizesForRewrites": _flag,
    "delta.writePartitionColumnsToParquet": _flag,
}
"""The ``delta.`` properties that people set; each function returns the value to store."""

_ADD_FEATURE: Final = "Use `deltactl alter TABLE --add-feature NAME`."
_WRITERS: Final = "Omit it: writers keep this property."
_ON_SPARK: Final = "Use Delta on Spark, which converts the table: REORG TABLE or CONVERT."
_REFUSED: Final[Mapping[str, str]] = {
    "delta.columnmapping.maxcolumnid": _WRITERS,
    "delta.constraints.": "Use Delta on Spark, which checks all rows: ALTER TABLE ADD CONSTRAINT.",
    "delta.coordinatedcommits.": _WRITERS,
    "delta.enableiceberg": _ON_SPARK,
    "delta.feature.": _ADD_FEATURE,
    "delta.incommittimestampenablement": _WRITERS,
    "delta.minreaderversion": _ADD_FEATURE,
    "delta.minwriterversion": _ADD_FEATURE,
    "delta.redirect": _WRITERS,
    "delta.requirecheckpointprotectionbeforeversion": _WRITERS,
    "delta.rowtracking": _WRITERS,
    "delta.universalformat.": _ON_SPARK,
}
"""Starts of names in lower case that people cannot set, and what to do instead."""

_SWITCHES: Final = {row.switch: row.name for row in REGISTRY.values() if row.switch is not None}


def ensure_changeable(key: str) -> None:
    """Refuse a property that is not for people.

    Raises:
        UsageError: what to do instead.
    """
    for start, hint in _REFUSED.items():
        if key.lower().startswith(start):
            raise UsageError(f"deltactl cannot set the property {key!r}", hint=hint)


def find_key(key: str) -> str:
    """Return the name of a property as Delta writes it; other names than ``delta.*`` are free.

    Raises:
        UsageError: no release of Delta knows the property, or it is not for people.
    """
    ensure_changeable(key)
    if not key.lower().startswith("delta."):
        return key
    for known in RULES:
        if known.lower() == key.lower():
            return known
    raise UsageError(
        with_suggestion(f"the property {key!r} is not known", key, RULES),
        hint="Correct the name. Names that do not begin with 'delta.' are free.",
    )


def parse_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with the names and values that are stored.

    Raises:
        UsageError: a name or a value is not possible.
    """
    found: dict[str, str] = {}
    for text, value in properties.items():
        key = find_key(text)
        meant = f"delta.{key}"
        if meant in RULES:
            raise UsageError(f"the property {key!r} would have no effect", hint=f"Write {meant!r}.")
        try:
            parsed = RULES.get(key, str)(value)
        except UsageError as error:
            raise UsageError(f"{key}: {error.message}", hint=error.hint) from error
        if found.setdefault(key, parsed) != parsed:
            raise UsageError(f"{key!r} is given twice, with two values", hint="Give one of them.")
    return found


def needed_feature(key: str, value: str) -> str | None:
    """Return the feature that a parsed value of a property needs."""
    if key == "delta.checkpointPolicy":
        return V2_CHECKPOINT.name if value == "v2" else None
    if key == "delta.columnMapping.mode":
        return None if value == "none" else COLUMN_MAPPING.name
    return _SWITCHES.get(key) if value == "true" else None


def ensure_manifests_fit(metadata: Metadata) -> None:
    """Refuse the property for manifests if their readers would get wrong rows.

    Raises:
        SafetyError: the table also enables deletion vectors or column mapping.
    """
    properties = TableProperties(metadata.configuration)
    if not properties.refreshes_manifests:
        return
    if properties.deletion_vectors_enabled:
        raise SafetyError(
            f"delta.enableDeletionVectors and {MANIFESTS_KEY} cannot both be true: readers of "
            "manifests would return deleted rows",
            hint="Set one of them to false.",
        )
    if metadata.column_mapping_mode != "none":
        raise SafetyError(
            f"{MANIFESTS_KEY} cannot be true with column mapping: readers of manifests use the "
            "column names in the files, and these names differ from the names in the table",
            hint=f"Set {MANIFESTS_KEY} to false, or drop the feature {COLUMN_MAPPING.name} first.",
        )
