"""Read typed ``delta.*`` table properties and their defaults.

Source: PROTOCOL.md, "Table properties", and Delta's published property list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar

from deltactl.errors import SafetyError, UsageError, Warn, ignore_warning
from deltactl.units import DAY_MS, parse_duration, parse_size

T = TypeVar("T")

DEFAULT_INDEXED_COLUMNS = 32
DEFAULT_STRING_PREFIX = 32
DEFAULT_CHECKPOINT_INTERVAL = 10
DEFAULT_RETENTION_MS = 7 * DAY_MS
DEFAULT_LOG_RETENTION_MS = 30 * DAY_MS

PROTECTED_BEFORE = "delta.requireCheckpointProtectionBeforeVersion"
FILE_RETENTION = "delta.deletedFileRetentionDuration"
LOG_RETENTION = "delta.logRetentionDuration"
TRUNCATION_RETENTION = "delta.dropFeatureTruncateHistory.retentionDuration"

ROW_TRACKING_COLUMN_KEYS = (
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
)

CODECS: Final[Mapping[str, str]] = {
    **{name: name for name in ("zstd", "snappy", "gzip", "lz4", "brotli", "none")},
    "uncompressed": "none",
    "lz4_raw": "lz4",
}
"""The codecs that can be written, by their names in table properties."""
_SPARK_UNIT: Final = re.compile(r"([kmgtp])b\Z", re.IGNORECASE)


def parse_property_size(text: str) -> int:
    """Return the bytes of a size in a property: a number without a unit, or as Spark reads it.

    Unlike in options, ``kb``, ``mb``, ... are powers of 1024.

    Raises:
        UsageError: it is not a size of at least a byte.
    """
    stripped = text.strip()
    size = parse_size(f"{stripped}B" if stripped.isdecimal() else _SPARK_UNIT.sub(r"\1", stripped))
    if size < 1:
        raise UsageError(f"size {text!r} is zero", hint="Use at least 1B.")
    return size


def _parse_codec(text: str) -> str:
    if (codec := CODECS.get(text.strip().lower())) is None:
        raise UsageError(f"deltactl cannot write the codec {text!r}")
    return codec


def _parse_policy(text: str) -> str:
    if (policy := text.strip().lower()) not in ("classic", "v2"):
        raise UsageError(f"{text!r} is neither classic nor v2")
    return policy


def _parse_integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a whole number") from None


def _parse_interval(text: str) -> int:
    if (interval := _parse_integer(text)) < 1:
        raise UsageError(f"{text!r} is not more than zero")
    return interval


_OF_OPTIONS: Final[Mapping[str, Callable[[str], object]]] = {
    "delta.checkpointPolicy": _parse_policy,
    "delta.parquet.compression.codec": _parse_codec,
    "delta.targetFileSize": parse_property_size,
}
"""Properties that set an option, and that are ignored if they are not valid."""


@contextmanager
def ensure_valid_property(key: str, until_then: str) -> Iterator[None]:
    """Raise an error for an invalid value of a property that protects data or history.

    The default is never used instead.

    Raises:
        SafetyError: the value is not valid.
    """
    try:
        yield
    except UsageError as error:
        raise SafetyError(
            f"the table property {key} is invalid: {error.message}",
            hint=f"Correct it with `deltactl alter TABLE --set {key}=VALUE`; until then, "
            f"{until_then}.",
        ) from error


def history_end_ms(written_ms: int, log_retention_ms: int) -> int:
    """Return from when a log cleanup deletes what was written then: a midnight (UTC)."""
    return -(-(written_ms + log_retention_ms) // DAY_MS) * DAY_MS


@dataclass(frozen=True)
class TableProperties:
    """Read the configuration of a table. The case of keys is ignored; an exact match comes first.

    An invalid value is ignored with a warning, because other writers set it and a typo must not
    stop maintenance. For properties that protect data or history, an invalid value is an error.
    """

    configuration: Mapping[str, str]
    warn: Warn = field(default=ignore_warning, repr=False, compare=False)
    _folded: dict[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folded = {key.lower(): value for key, value in self.configuration.items()}
        object.__setattr__(self, "_folded", folded)

    def text(self, key: str) -> str | None:
        """Return the value of a property as a string; ``None`` if it is not set."""
        exact = self.configuration.get(key)
        return self._folded.get(key.lower()) if exact is None else exact

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a boolean property."""
        value = self.text(key)
        return default if value is None else value.strip().lower() == "true"

    def parsed(self, key: str, parse: Callable[[str], T]) -> T | None:
        """Return the value of a property; ``None`` if it is not set, or ignored with a warning."""
        value = self.text(key)
        try:
            return None if value is None else parse(value)
        except UsageError as error:
            self.warn(
                f"the table property {key} is ignored: {error.message}. Correct it with "
                "`deltactl alter TABLE --set KEY=VALUE`"
            )
            return None

    def integer(self, key: str, default: int) -> int:
        """Return an integer property."""
        found = self.parsed(key, _parse_integer)
        return default if found is None else found

    def duration_ms(self, key: str, default_ms: int) -> int:
        """Return an interval in milliseconds."""
        found = self.parsed(key, parse_duration)
        return default_ms if found is None else found

    def option_text(self, key: str) -> str | None:
        """Return the text of a property that sets an option; ``None`` if it is not used."""
        return None if self.parsed(key, _OF_OPTIONS.get(key, str)) is None else self.text(key)

    @property
    def target_file_size(self) -> int | None:
        """``delta.targetFileSize`` in bytes."""
        return self.parsed("delta.targetFileSize", parse_property_size)

    @property
    def compression_codec(self) -> str | None:
        """``delta.parquet.compression.codec``, as deltactl names it."""
        return self.parsed("delta.parquet.compression.codec", _parse_codec)

    @property
    def parquet_format_version(self) -> str:
        """``delta.parquet.format.version``."""
        return self.text("delta.parquet.format.version") or "1.0.0"

    @property
    def indexed_columns_count(self) -> int:
        """``delta.dataSkippingNumIndexedCols``; -1 means all."""
        return self.integer("delta.dataSkippingNumIndexedCols", DEFAULT_INDEXED_COLUMNS)

    @property
    def string_prefix_length(self) -> int:
        """``delta.dataSkippingStringPrefixLength`` in characters."""
        return self.integer("delta.dataSkippingStringPrefixLength", DEFAULT_STRING_PREFIX)

    @property
    def in_commit_timestamps(self) -> bool:
        """``delta.enableInCommitTimestamps``."""
        return self.flag("delta.enableInCommitTimestamps")

    @property
    def in_commit_since(self) -> int | None:
        """The first version whose in-commit timestamp is used; ``None`` if there is none."""
        if not self.in_commit_timestamps:
            return None
        return self.integer("delta.inCommitTimestampEnablementVersion", 0)

    @property
    def row_tracking_columns(self) -> tuple[str | None, str | None]:
        """Physical names of the columns with materialized row ids and row commit versions."""
        row_id, commit_version = ROW_TRACKING_COLUMN_KEYS
        return self.text(row_id), self.text(commit_version)

    @property
    def deleted_file_retention_ms(self) -> int:
        """``delta.deletedFileRetentionDuration``: how long removed files and tombstones are kept.

        Raises:
            UsageError: the value is not valid. The property protects data, so no default is used
                then.
        """
        value = self.text(FILE_RETENTION)
        return DEFAULT_RETENTION_MS if value is None else parse_duration(value)

    @property
    def change_feed_enabled(self) -> bool:
        """``delta.enableChangeDataFeed``."""
        return self.flag("delta.enableChangeDataFeed")

    @property
    def deletion_vectors_enabled(self) -> bool:
        """``delta.enableDeletionVectors``: whether new vectors may be written."""
        return self.flag("delta.enableDeletionVectors")

    @property
    def uniform_formats(self) -> str:
        """``delta.universalFormat.enabledFormats``, lower case; empty if UniForm is off."""
        return (self.text("delta.universalFormat.enabledFormats") or "").strip().lower()

    @property
    def random_prefix_length(self) -> int:
        """Length of the prefix of file names from ``delta.randomizeFilePrefixes``; 0: no prefix."""
        if not self.flag("delta.randomizeFilePrefixes"):
            return 0
        return max(self.integer("delta.randomPrefixLength", 2), 0)

    @property
    def refreshes_manifests(self) -> bool:
        """``delta.compatibility.symlinkFormatManifest.enabled``, which PROTOCOL.md lacks."""
        return self.flag("delta.compatibility.symlinkFormatManifest.enabled")

    @property
    def row_tracking_enabled(self) -> bool:
        """``delta.enableRowTracking``."""
        return self.flag("delta.enableRowTracking")

    @property
    def row_tracking_suspended(self) -> bool:
        """``delta.rowTrackingSuspended``."""
        return self.flag("delta.rowTrackingSuspended")

    @property
    def checkpoint_interval(self) -> int:
        """``delta.checkpointInterval``: the number of commits from one checkpoint to the next."""
        found = self.parsed("delta.checkpointInterval", _parse_interval)
        return found or DEFAULT_CHECKPOINT_INTERVAL

    @property
    def checkpoint_policy(self) -> str:
        """``delta.checkpointPolicy``, lower case: ``classic`` or ``v2``."""
        return self.parsed("delta.checkpointPolicy", _parse_policy) or "classic"

    @property
    def log_retention_ms(self) -> int:
        """``delta.logRetentionDuration``: how long versions are kept.

        Raises:
            UsageError: the value is not valid.
        """
        value = self.text(LOG_RETENTION)
        return DEFAULT_LOG_RETENTION_MS if value is None else parse_duration(value)

    @property
    def truncation_retention_ms(self) -> int:
        """``delta.dropFeatureTruncateHistory.retentionDuration``: what TRUNCATE HISTORY keeps.

        Raises:
            UsageError: the value is not valid.
        """
        value = self.text(TRUNCATION_RETENTION)
        return DAY_MS if value is None else parse_duration(value)

    @property
    def txn_retention_ms(self) -> int | None:
        """``delta.setTransactionRetentionDuration`` in milliseconds; ``None`` means no limit."""
        key = "delta.setTransactionRetentionDuration"
        never = -1
        found = self.duration_ms(key, never)
        return None if found == never else found

    @property
    def expired_log_cleanup(self) -> bool:
        """``delta.enableExpiredLogCleanup``."""
        return self.flag("delta.enableExpiredLogCleanup", default=True)

    @property
    def protected_before_version(self) -> int:
        """``delta.requireCheckpointProtectionBeforeVersion``; 0: nothing is protected.

        Raises:
            UsageError: the value is not valid.
        """
        value = self.text(PROTECTED_BEFORE)
        try:
            return 0 if value is None else int(value)
        except ValueError as error:
            raise UsageError(f"{value!r} is not a version") from error


def list_shorter_retentions(old: TableProperties, new: TableProperties) -> list[str]:
    """Return what a change of properties lets be deleted earlier."""
    retentions = (
        (FILE_RETENTION, DEFAULT_RETENTION_MS, "a vacuum then removes files of more versions"),
        (LOG_RETENTION, DEFAULT_LOG_RETENTION_MS, "a log cleanup then removes more versions"),
        (TRUNCATION_RETENTION, DAY_MS, "the drop of a feature can then remove more versions"),
    )
    return [
        f"{key} becomes shorter: {lost}"
        for key, default_ms, lost in retentions
        if new.duration_ms(key, default_ms) < old.duration_ms(key, default_ms)
    ]
