"""Maintain Delta Lake tables: the library that the ``deltactl`` command uses.

    from deltactl import Table

    table = Table("/data/events")
    table.snapshot().num_files

The names in the block below are imported when they are first used (PEP 562), so that the import of
the package is fast, and ``deltactl --help`` never loads Arrow.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltactl.commit_options import CommitOptions as CommitOptions
    from deltactl.engine.base import Engine as Engine
    from deltactl.engine.base import Progress as Progress
    from deltactl.engine.local import LocalEngine as LocalEngine
    from deltactl.engine.spark.engine import SparkEngine as SparkEngine
    from deltactl.errors import AccessDeniedError as AccessDeniedError
    from deltactl.errors import BucketNotFoundError as BucketNotFoundError
    from deltactl.errors import CommitDamagedError as CommitDamagedError
    from deltactl.errors import CommitOutcomeUnknownError as CommitOutcomeUnknownError
    from deltactl.errors import ConflictError as ConflictError
    from deltactl.errors import ConversionError as ConversionError
    from deltactl.errors import CorruptLogError as CorruptLogError
    from deltactl.errors import CredentialsExpiredError as CredentialsExpiredError
    from deltactl.errors import CredentialsMissingError as CredentialsMissingError
    from deltactl.errors import CredentialsRefusedError as CredentialsRefusedError
    from deltactl.errors import DataFileError as DataFileError
    from deltactl.errors import DeltactlError as DeltactlError
    from deltactl.errors import EngineUnavailableError as EngineUnavailableError
    from deltactl.errors import FileMissingError as FileMissingError
    from deltactl.errors import FilesGoneError as FilesGoneError
    from deltactl.errors import InternalError as InternalError
    from deltactl.errors import InterruptedRunError as InterruptedRunError
    from deltactl.errors import LeaseHeldError as LeaseHeldError
    from deltactl.errors import LogGapError as LogGapError
    from deltactl.errors import MissingActionError as MissingActionError
    from deltactl.errors import MissingLogFileError as MissingLogFileError
    from deltactl.errors import NotATableError as NotATableError
    from deltactl.errors import NotBegunError as NotBegunError
    from deltactl.errors import ObjectExistsError as ObjectExistsError
    from deltactl.errors import ObjectNotFoundError as ObjectNotFoundError
    from deltactl.errors import OutOfMemoryError as OutOfMemoryError
    from deltactl.errors import PartialSuccessError as PartialSuccessError
    from deltactl.errors import PredicateError as PredicateError
    from deltactl.errors import SafetyError as SafetyError
    from deltactl.errors import SearchIncompleteError as SearchIncompleteError
    from deltactl.errors import StorageError as StorageError
    from deltactl.errors import TableError as TableError
    from deltactl.errors import TimeLimitError as TimeLimitError
    from deltactl.errors import TransientStorageError as TransientStorageError
    from deltactl.errors import UnreachableError as UnreachableError
    from deltactl.errors import UnsupportedByStoreError as UnsupportedByStoreError
    from deltactl.errors import UnsupportedFeatureError as UnsupportedFeatureError
    from deltactl.errors import UsageError as UsageError
    from deltactl.errors import VerificationError as VerificationError
    from deltactl.errors import VersionNotFoundError as VersionNotFoundError
    from deltactl.keyword_types import AlterKeywords as AlterKeywords
    from deltactl.keyword_types import CheckKeywords as CheckKeywords
    from deltactl.keyword_types import CheckpointKeywords as CheckpointKeywords
    from deltactl.keyword_types import CloneKeywords as CloneKeywords
    from deltactl.keyword_types import ConvertKeywords as ConvertKeywords
    from deltactl.keyword_types import FixKeywords as FixKeywords
    from deltactl.keyword_types import HistoryKeywords as HistoryKeywords
    from deltactl.keyword_types import MaintainKeywords as MaintainKeywords
    from deltactl.keyword_types import ManifestKeywords as ManifestKeywords
    from deltactl.keyword_types import OptimizeKeywords as OptimizeKeywords
    from deltactl.keyword_types import RestoreKeywords as RestoreKeywords
    from deltactl.keyword_types import StorageKeywords as StorageKeywords
    from deltactl.keyword_types import VacuumKeywords as VacuumKeywords
    from deltactl.library import convert as convert
    from deltactl.library import maintain as maintain
    from deltactl.log.snapshot import Snapshot as Snapshot
    from deltactl.operations.alter.options import AlterOptions as AlterOptions
    from deltactl.operations.alter.report import AlterReport as AlterReport
    from deltactl.operations.check.fixes.options import Fix as Fix
    from deltactl.operations.check.fixes.options import FixOptions as FixOptions
    from deltactl.operations.check.fixes.report import FixReport as FixReport
    from deltactl.operations.check.options import CheckOptions as CheckOptions
    from deltactl.operations.check.options import Depth as Depth
    from deltactl.operations.check.report import CheckReport as CheckReport
    from deltactl.operations.checkpoint.options import CheckpointOptions as CheckpointOptions
    from deltactl.operations.checkpoint.repair import RepairReport as RepairReport
    from deltactl.operations.checkpoint.report import CheckpointReport as CheckpointReport
    from deltactl.operations.clone.options import CloneOptions as CloneOptions
    from deltactl.operations.clone.report import CloneReport as CloneReport
    from deltactl.operations.convert.options import ConvertOptions as ConvertOptions
    from deltactl.operations.convert.options import PartitionColumn as PartitionColumn
    from deltactl.operations.convert.report import ConvertReport as ConvertReport
    from deltactl.operations.detail import DetailReport as DetailReport
    from deltactl.operations.erased.report import ErasedReport as ErasedReport
    from deltactl.operations.history.diff import VersionDiff as VersionDiff
    from deltactl.operations.history.restorable import Restorable as Restorable
    from deltactl.operations.maintain.options import Budget as Budget
    from deltactl.operations.maintain.options import MaintainOptions as MaintainOptions
    from deltactl.operations.maintain.policy import MaintainPolicy as MaintainPolicy
    from deltactl.operations.maintain.report import MaintainReport as MaintainReport
    from deltactl.operations.manifest.options import ManifestOptions as ManifestOptions
    from deltactl.operations.manifest.report import ManifestReport as ManifestReport
    from deltactl.operations.optimize.options import OptimizeOptions as OptimizeOptions
    from deltactl.operations.optimize.report import OptimizeReport as OptimizeReport
    from deltactl.operations.restore.options import RestoreOptions as RestoreOptions
    from deltactl.operations.restore.report import RestoreReport as RestoreReport
    from deltactl.operations.storage.options import StorageOptions as StorageOptions
    from deltactl.operations.storage.report import StorageReport as StorageReport
    from deltactl.operations.thresholds import Need as Need
    from deltactl.operations.vacuum.options import VacuumOptions as VacuumOptions
    from deltactl.operations.vacuum.purge import PurgeReport as PurgeReport
    from deltactl.operations.vacuum.report import VacuumReport as VacuumReport
    from deltactl.operations.vacuum.undo import UndoReport as UndoReport
    from deltactl.protocol.schema import PrimitiveType as PrimitiveType
    from deltactl.storage.log_store import DynamoDbLogStore as DynamoDbLogStore
    from deltactl.storage.store import Store as Store
    from deltactl.table import Table as Table
    from deltactl.table import TableWarning as TableWarning

__version__ = "0.1.0"

if not TYPE_CHECKING:  # type checkers know the names above, and refuse all others

    @cache
    def _list_exports() -> dict[str, str]:
        """Return the module of each name in the block above, from the source of this file."""
        import ast

        tree = ast.parse(__spec__.loader.get_source(__name__))
        block = next(node for node in tree.body if isinstance(node, ast.If))
        return {node.names[0].name: node.module for node in block.body}

    def __getattr__(name: str) -> object:
        """Return a public name; import its module on first use."""
        if name == "__all__":
            return sorted([*_list_exports(), "__version__"])
        if name.startswith("_") or name not in _list_exports():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_list_exports()[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return __getattr__("__all__")
