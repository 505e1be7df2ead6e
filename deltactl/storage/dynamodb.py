"""Read and write the DynamoDB table by which writers agree on commits.

The table has one item for each commit, in the layout of Delta's ``S3DynamoDBLogStore``:

- ``tablePath``, the hash key: the address of the Delta table
- ``fileName``, the range key: the name of the commit file
- ``tempPath``: the temporary file with the content, relative to ``_delta_log``
- ``complete``: the string ``true`` or ``false``
- ``expireTime``: seconds since 1970, in complete items

Source: delta-io/delta, storage-s3-dynamodb, ``S3DynamoDBLogStore``, ``ExternalCommitEntry``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from deltactl.errors import StorageError
from deltactl.storage.classify import service_code
from deltactl.storage.errors import map_error
from deltactl.storage.log_store import DynamoDbLogStore
from deltactl.storage.providers import S3
from deltactl.storage.secrets import secret_values

# botocore waits for 60 seconds each, and a commit waits for all attempts.
_CONNECT_TIMEOUT_SECONDS: Final = 5
_READ_TIMEOUT_SECONDS: Final = 15
_ATTEMPTS: Final = 4


@dataclass(frozen=True, slots=True)
class CommitEntry:
    """The entry of a commit file; the file ``temp_path`` (below ``_delta_log``) has its content.

    If ``complete`` is true, the commit file has the content too.
    """

    file_name: str
    temp_path: str
    complete: bool = False


class CommitEntries(Protocol):
    """The entries of all tables, by the address of the table and the name of the commit file."""

    def get(self, table_path: str, file_name: str) -> CommitEntry | None:
        """Return the entry of a commit file; ``None`` if there is none."""
        ...

    def find_latest(self, table_path: str) -> CommitEntry | None:
        """Return the entry whose file name sorts last; ``None`` if the table has no entries."""
        ...

    def create(self, table_path: str, entry: CommitEntry) -> bool:
        """Add an entry; return whether it was added. If there is already one, return ``False``.

        ``False`` can also mean that the library sent the request twice and the first request
        succeeded: read the entry to find its writer.
        """
        ...

    def complete(self, table_path: str, entry: CommitEntry, expire_time_s: int) -> bool:
        """Mark an entry complete; return whether the entry still exists with its temporary file."""
        ...


class DynamoDbEntries:
    """Entries in a table of DynamoDB.

    The endpoint is found as in every AWS SDK (``AWS_ENDPOINT_URL_DYNAMODB``, for example). If the
    storage options have no credentials, these are found in the same way.
    """

    def __init__(self, place: DynamoDbLogStore, options: Mapping[str, str]) -> None:
        """Use the table at ``place``, with the S3 credentials in ``options``."""
        self._place = place
        self._options = dict(options)
        self._secrets = secret_values(options)
        self._client: Any = None

    def __repr__(self) -> str:
        """Show the place, but no options."""
        return f"DynamoDbEntries({self._place!r})"

    def get(self, table_path: str, file_name: str) -> CommitEntry | None:
        """See ``CommitEntries.get``."""
        key = _key(table_path, file_name)
        # A read that is not consistent can miss an entry that was just created.
        answer = self._call("get_item", file_name, Key=key, ConsistentRead=True)
        return self._decode(answer.get("Item"))

    def find_latest(self, table_path: str) -> CommitEntry | None:
        """See ``CommitEntries.find_latest``."""
        answer = self._call(
            "query",
            table_path,
            KeyConditionExpression="tablePath = :table",
            ExpressionAttributeValues={":table": {"S": table_path}},
            ConsistentRead=True,
            ScanIndexForward=False,
            Limit=1,
        )
        return next(map(self._decode, answer.get("Items") or ()), None)

    def create(self, table_path: str, entry: CommitEntry) -> bool:
        """See ``CommitEntries.create``."""
        item = {
            **_key(table_path, entry.file_name),
            "tempPath": {"S": entry.temp_path},
            "complete": {"S": "false"},
        }
        answer = self._call_conditionally(
            "put_item",
            entry.file_name,
            Item=item,
            ConditionExpression="attribute_not_exists(fileName)",
        )
        return answer is not None

    def complete(self, table_path: str, entry: CommitEntry, expire_time_s: int) -> bool:
        """See ``CommitEntries.complete``."""
        answer = self._call_conditionally(
            "update_item",
            entry.file_name,
            Key=_key(table_path, entry.file_name),
            UpdateExpression="SET complete = :true, expireTime = :expires",
            # Some writers replace the entry of another writer (ADR 11).
            ConditionExpression="tempPath = :temp",
            ExpressionAttributeValues={
                ":true": {"S": "true"},
                ":expires": {"N": str(expire_time_s)},
                ":temp": {"S": entry.temp_path},
            },
        )
        return answer is not None

    def _call_conditionally(self, method: str, name: str, **request: Any) -> Any:
        """Return the answer of DynamoDB, or ``None`` if the condition of the request failed."""
        try:
            return self._call(method, name, **request)
        except StorageError as error:
            if service_code(error.__cause__) == "ConditionalCheckFailedException":
                return None
            raise

    def _call(self, method: str, name: str, **request: Any) -> Any:
        where = f"DynamoDB table {self._place.table_name!r} in {self._place.region}"
        try:
            if self._client is None:
                self._client = self._connect()
            return getattr(self._client, method)(TableName=self._place.table_name, **request)
        except Exception as error:
            if service_code(error) == "ResourceNotFoundException":
                raise StorageError(
                    f"there is no {where}",
                    hint="Use --ddb-table-name and --ddb-region to give the DynamoDB table that "
                    "the other writers use for their commits. See "
                    "docs/object-store-commits.md to create such a table.",
                ) from error
            verb, request_name = method.replace("_", " "), method.title().replace("_", "")
            access = replace(S3.access, to_write=f"dynamodb:{request_name}", more="")
            raise map_error(error, verb, name, where, self._secrets, access=access) from error

    def _connect(self) -> Any:
        # s3fs brings botocore, but not boto3.
        from botocore.config import Config
        from botocore.session import Session

        options = self._options
        session = Session(profile=options.get("profile"))
        return session.create_client(
            "dynamodb",
            region_name=self._place.region,
            aws_access_key_id=options.get("key"),
            aws_secret_access_key=options.get("secret"),
            aws_session_token=options.get("token"),
            config=Config(
                connect_timeout=_CONNECT_TIMEOUT_SECONDS,
                read_timeout=_READ_TIMEOUT_SECONDS,
                # So a conditional request can be sent twice; `create` says how callers handle this.
                retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            ),
        )

    def _decode(self, item: Any) -> CommitEntry | None:
        if not item:
            return None
        with suppress(KeyError, TypeError):
            return CommitEntry(
                str(item["fileName"]["S"]),
                str(item["tempPath"]["S"]),
                str(item["complete"]["S"]).lower() == "true",
            )
        raise StorageError(
            f"an item in DynamoDB table {self._place.table_name!r} is not the entry of a commit",
            hint="Use --ddb-table-name to give the DynamoDB table that the other writers of this "
            "Delta table use for their commits.",
        )


def _key(table_path: str, file_name: str) -> dict[str, Any]:
    return {"tablePath": {"S": table_path}, "fileName": {"S": file_name}}
