"""Name the DynamoDB table by which the writers of a table agree. Imports no library."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DynamoDbLogStore:
    """Name and region of the DynamoDB table, as ``ddb.tableName`` and ``ddb.region`` of Delta.

    The defaults are those of Delta.
    """

    table_name: str = "delta_log"
    region: str = "us-east-1"
