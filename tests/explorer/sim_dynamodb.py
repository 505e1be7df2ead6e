"""A simulated DynamoDB under the real code of the log store: an item is a file of the world.

``client`` answers like botocore's client. Each request is one call, and so a scheduling point:
``read`` and ``latest`` look at items, ``create`` and ``update`` are conditional writes.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from deltactl.clock import Clock
from deltactl.errors import ignore_warning
from deltactl.log.committers.committer import CommitFacts, create_file
from deltactl.log.committers.dynamodb import DynamoDb
from deltactl.log.delta_log import DeltaLog
from deltactl.protocol.names import LOG_DIR, commit_version
from deltactl.storage.dynamodb import DynamoDbEntries
from deltactl.storage.log_store import DynamoDbLogStore
from deltactl.storage.store import FileInfo, Store
from tests.explorer.sim_catalog import CatalogStore
from tests.explorer.world import ITEMS, Call, Reply, Worlds
from tests.support.forwarding import ForwardingStore

_FAILED: Final = "InternalServerError"
_CONDITION: Final = "ConditionalCheckFailedException"


class _Refused(Exception):
    """What botocore raises, as far as anybody looks at it."""

    def __init__(self, code: str) -> None:
        super().__init__(f"{code} on purpose")
        status = 400 if code == _CONDITION else 500
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


class SimDynamoDb:
    """The four requests that the log store makes."""

    def __init__(self, worlds: Worlds, ask: Callable[[Call], Reply]) -> None:
        self._worlds, self._ask = worlds, ask

    def get_item(self, *, Key: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        return self._found(self._ask(Call("read", item_name(Key))), "Item")

    def query(self, *, ExpressionAttributeValues: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        """The item of a table whose file name sorts last."""
        table = ExpressionAttributeValues[":table"]["S"]
        answer = self._found(self._ask(Call("latest", _folder(table))), "Item")
        return {"Items": list(answer.values())}

    def put_item(self, *, Item: Mapping[str, Any], **_: Any) -> dict[str, Any]:
        self._found(self._ask(Call("create", item_name(Item), self._keep(Item))), "")
        return {}

    def update_item(
        self, *, Key: Mapping[str, Any], ExpressionAttributeValues: Mapping[str, Any], **_: Any
    ) -> dict[str, Any]:
        values = ExpressionAttributeValues
        item = {
            **Key,
            "tempPath": values[":temp"],
            "complete": values[":true"],
            "expireTime": values[":expires"],
        }
        call = Call("update", item_name(Key), self._keep(item), values[":temp"]["S"])
        self._found(self._ask(call), "")
        return {}

    def _keep(self, item: Mapping[str, Any]) -> int:
        return self._worlds.keep(json.dumps(item, sort_keys=True).encode())

    def _found(self, reply: Reply, key: str) -> dict[str, Any]:
        if reply.error == "failed":
            raise _Refused(_FAILED)
        if reply.error == "exists":
            raise _Refused(_CONDITION)
        if reply.error == "missing" or not isinstance(reply.value, int):
            return {}
        return {key: json.loads(self._worlds.data(reply.value))}


def item_name(key: Mapping[str, Any]) -> str:
    """Where a world keeps an item."""
    return f"{_folder(key['tablePath']['S'])}/{key['fileName']['S']}"


def _folder(table: str) -> str:
    return ITEMS + quote(table, safe="")


class AgreeingStore(ForwardingStore):
    """The store of a table whose writers agree through a DynamoDB table.

    A plain writer lists the log and puts commits by it, as by any store.
    """

    def __init__(self, inner: Store, committer: DynamoDb) -> None:
        super().__init__(inner)
        self.inner, self.committer = inner, committer

    def list_from(self, prefix: str, start: str = "") -> Iterator[FileInfo]:
        if prefix.strip("/") == LOG_DIR:
            self.committer.tail(may_write=True)
        return self.inner.list_from(prefix, start)

    def ensure_put_if_absent(self) -> None:
        self.committer.ensure_can_commit()

    def put_if_absent(self, name: str, data: bytes) -> None:
        version = commit_version(name)
        if version is None:
            create_file(self.inner, name, data)
        else:
            self.committer.commit(version, data, CommitFacts("id"))


def agreeing_store(
    store: Store, worlds: Worlds, ask: Callable[[Call], Reply], clock: Clock
) -> Store:
    """The store of a table whose writers agree through a DynamoDB table."""
    entries = DynamoDbEntries(DynamoDbLogStore(), {})
    entries._client = SimDynamoDb(worlds, ask)
    return AgreeingStore(store, DynamoDb(store, entries, clock))


def log_of(store: Store) -> DeltaLog:
    """The log of a table, with commits decided as its store says."""
    if isinstance(store, CatalogStore):
        return store.open_log()
    if isinstance(store, AgreeingStore):
        return DeltaLog(store.inner, ignore_warning, committer=store.committer)
    return DeltaLog(store, ignore_warning)
