"""Maintain Delta Lake tables: the library that the ``deltactl`` command uses.

    from deltactl import Table

    table = Table("/data/events")
    table.snapshot().num_files

The names below are imported when they are first used (PEP 562), so that the import of the package
is fast, and ``deltactl --help`` never loads Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from deltactl.engine.local import LocalEngine
    from deltactl.engine.spark.engine import SparkEngine
    from deltactl.errors import (
        AccessDeniedError,
        CommitDamagedError,
        CommitOutcomeUnknownError,
        ConflictError,
        ConversionError,
        CorruptLogError,
        DataFileError,
        DeltactlError,
        EngineUnavailableError,
        FileMissingError,
        FilesGoneError,
        InternalError,
        InterruptedRunError,
        LeaseHeldError,
        LogGapError,
        MissingActionError,
        MissingLogFileError,
        NotATableError,
        NotBegunError,
        ObjectExistsError,
        ObjectNotFoundError,
        OutOfMemoryError,
        PartialSuccessError,
        PredicateError,
        SafetyError,
        StorageError,
        TableError,
        TimeLimitError,
        UnsupportedFeatureError,
        UsageError,
        VerificationError,
        VersionNotFoundError,
    )
    from deltactl.log.snapshot import Snapshot
    from deltactl.operations.check.options import CheckOptions, Depth
    from deltactl.operations.check.report import CheckReport
    from deltactl.operations.checkpoint.options import CheckpointOptions
    from deltactl.operations.checkpoint.repair import RepairReport
    from deltactl.operations.checkpoint.report import CheckpointReport
    from deltactl.operations.clone.options import CloneOptions
    from deltactl.operations.clone.report import CloneReport
    from deltactl.operations.convert.options import ConvertOptions
    from deltactl.operations.convert.partition_by import PartitionColumn
    from deltactl.operations.convert.report import ConvertReport
    from deltactl.operations.convert.run import convert
    from deltactl.operations.detail import DetailReport
    from deltactl.operations.maintain.budget import Budget
    from deltactl.operations.maintain.options import MaintainOptions
    from deltactl.operations.maintain.policy import MaintainPolicy
    from deltactl.operations.maintain.report import MaintainReport
    from deltactl.operations.maintain.run import maintain
    from deltactl.operations.manifest.options import ManifestOptions
    from deltactl.operations.manifest.report import ManifestReport
    from deltactl.operations.optimize.options import OptimizeOptions
    from deltactl.operations.optimize.report import OptimizeReport
    from deltactl.operations.restore.options import RestoreOptions
    from deltactl.operations.restore.report import RestoreReport
    from deltactl.operations.vacuum.options import VacuumOptions
    from deltactl.operations.vacuum.report import VacuumReport
    from deltactl.storage.log_store import DynamoDbLogStore
    from deltactl.table import Table

__version__ = "0.1.0"

__all__ = [
    "AccessDeniedError",
    "Budget",
    "CheckOptions",
    "CheckReport",
    "CheckpointOptions",
    "CheckpointReport",
    "CloneOptions",
    "CloneReport",
    "CommitDamagedError",
    "CommitOutcomeUnknownError",
    "ConflictError",
    "ConversionError",
    "ConvertOptions",
    "ConvertReport",
    "CorruptLogError",
    "DataFileError",
    "DeltactlError",
    "Depth",
    "DetailReport",
    "DynamoDbLogStore",
    "EngineUnavailableError",
    "FileMissingError",
    "FilesGoneError",
    "InternalError",
    "InterruptedRunError",
    "LeaseHeldError",
    "LocalEngine",
    "LogGapError",
    "MaintainOptions",
    "MaintainPolicy",
    "MaintainReport",
    "ManifestOptions",
    "ManifestReport",
    "MissingActionError",
    "MissingLogFileError",
    "NotATableError",
    "NotBegunError",
    "ObjectExistsError",
    "ObjectNotFoundError",
    "OptimizeOptions",
    "OptimizeReport",
    "OutOfMemoryError",
    "PartialSuccessError",
    "PartitionColumn",
    "PredicateError",
    "RepairReport",
    "RestoreOptions",
    "RestoreReport",
    "SafetyError",
    "Snapshot",
    "SparkEngine",
    "StorageError",
    "Table",
    "TableError",
    "TimeLimitError",
    "UnsupportedFeatureError",
    "UsageError",
    "VacuumOptions",
    "VacuumReport",
    "VerificationError",
    "VersionNotFoundError",
    "__version__",
    "convert",
    "maintain",
]

_MODULES: Final = {
    "Budget": "deltactl.operations.maintain.budget",
    "CheckOptions": "deltactl.operations.check.options",
    "CheckReport": "deltactl.operations.check.report",
    "CheckpointOptions": "deltactl.operations.checkpoint.options",
    "CheckpointReport": "deltactl.operations.checkpoint.report",
    "CloneOptions": "deltactl.operations.clone.options",
    "CloneReport": "deltactl.operations.clone.report",
    "ConvertOptions": "deltactl.operations.convert.options",
    "ConvertReport": "deltactl.operations.convert.report",
    "Depth": "deltactl.operations.check.options",
    "DetailReport": "deltactl.operations.detail",
    "DynamoDbLogStore": "deltactl.storage.log_store",
    "LocalEngine": "deltactl.engine.local",
    "MaintainOptions": "deltactl.operations.maintain.options",
    "MaintainPolicy": "deltactl.operations.maintain.policy",
    "MaintainReport": "deltactl.operations.maintain.report",
    "ManifestOptions": "deltactl.operations.manifest.options",
    "ManifestReport": "deltactl.operations.manifest.report",
    "OptimizeOptions": "deltactl.operations.optimize.options",
    "OptimizeReport": "deltactl.operations.optimize.report",
    "PartitionColumn": "deltactl.operations.convert.partition_by",
    "RepairReport": "deltactl.operations.checkpoint.repair",
    "RestoreOptions": "deltactl.operations.restore.options",
    "RestoreReport": "deltactl.operations.restore.report",
    "Snapshot": "deltactl.log.snapshot",
    "SparkEngine": "deltactl.engine.spark.engine",
    "Table": "deltactl.table",
    "VacuumOptions": "deltactl.operations.vacuum.options",
    "VacuumReport": "deltactl.operations.vacuum.report",
    "convert": "deltactl.operations.convert.run",
    "maintain": "deltactl.operations.maintain.run",
}
"""The modules of the public names that are not errors."""


def __getattr__(name: str) -> object:
    """Return a public name; import its module on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES.get(name, "deltactl.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
