"""Define options for commits through DynamoDB: ``--log-store``, ``--ddb-table-name``, ..."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from deltactl.errors import UsageError
from deltactl.option_fields import execution_option
from deltactl.storage.log_store import DynamoDbLogStore

_DEFAULTS: Final = DynamoDbLogStore()


class LogStoreName(StrEnum):
    """Names of log stores. Without one, put-if-absent of the storage decides who commits first."""

    DYNAMODB = "dynamodb"


@dataclass(frozen=True, slots=True)
class LogStoreOptions:
    """The log store options of a run."""

    log_store: LogStoreName | None = execution_option(
        None,
        "Commit on S3 through DynamoDB, as S3DynamoDBLogStore of Delta on Spark does. All writers "
        "of a table must use the same log store",
        default="conditional PUT on S3",
        is_settable=True,
    )
    ddb_table_name: str = execution_option(
        _DEFAULTS.table_name,
        "Name of the DynamoDB table for --log-store dynamodb",
        metavar="NAME",
        is_settable=True,
    )
    ddb_region: str = execution_option(
        _DEFAULTS.region, "AWS region of the DynamoDB table", metavar="REGION", is_settable=True
    )
    origins: Mapping[str, str] = field(default_factory=dict)

    def resolve(self) -> DynamoDbLogStore | None:
        """Return the log store; ``None``: put-if-absent of the storage decides.

        Raises:
            UsageError: its options are given without it.
        """
        if self.log_store is not None:
            return DynamoDbLogStore(self.ddb_table_name, self.ddb_region)
        for place in self.origins.values():
            if place.startswith("--"):
                raise UsageError(
                    f"{place} has no effect without --log-store dynamodb",
                    hint="Add --log-store dynamodb.",
                )
        return None
