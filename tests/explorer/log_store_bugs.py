"""Seed bugs in the log store that uses DynamoDB."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from deltactl.errors import ObjectExistsError
from deltactl.log.committers.committer import CommitFacts
from deltactl.log.committers.dynamodb import DynamoDb
from deltactl.protocol.names import LOG_DIR
from deltactl.storage.dynamodb import CommitEntry, DynamoDbEntries
from tests.explorer.bug import Bug


def _recover_nothing() -> AbstractContextManager[object]:
    return patch.object(DynamoDb, "_finish", lambda *args: None)


def _complete_first() -> AbstractContextManager[object]:
    end = DynamoDb._end

    def hasty(self: DynamoDb, entry: CommitEntry, data: bytes) -> None:
        self._complete(entry)
        end(self, entry, data)

    return patch.object(DynamoDb, "_end", hasty)


@contextmanager
def _recover_with_own_content() -> Iterator[None]:
    """Finish the commit of the winner with the content of the loser."""
    held: dict[DynamoDb, bytes] = {}
    put, finish = DynamoDb.commit, DynamoDb._finish

    def remember(self: DynamoDb, version: int, data: bytes, facts: CommitFacts) -> None:
        held[self] = data
        put(self, version, data, facts)

    def mixed_up(self: DynamoDb, entry: CommitEntry) -> None:
        if self in held:
            self._store.put(f"{LOG_DIR}/{entry.file_name}", held[self])
        finish(self, entry)

    with patch.object(DynamoDb, "commit", remember), patch.object(DynamoDb, "_finish", mixed_up):
        yield


def _take_no_for_lost() -> AbstractContextManager[object]:
    """Delete the temporary file of an entry that exists, also if the entry is our own."""
    give_way = DynamoDb._give_way

    def hasty(self: DynamoDb, entry: CommitEntry) -> None:
        self._store.delete_many([f"{LOG_DIR}/{entry.temp_path}"])
        give_way(self, entry)

    return patch.object(DynamoDb, "_give_way", hasty)


def _overwrite_entries() -> AbstractContextManager[object]:
    """Ignore the condition on the entry: the last writer wins."""
    call = DynamoDbEntries._call

    def unconditional(self: DynamoDbEntries, method: str, name: str, **request: object) -> object:
        try:
            return call(self, method, name, **request)
        except Exception:
            if method != "put_item":
                raise
            return {}

    return patch.object(DynamoDbEntries, "_call", unconditional)


def _publish_without_a_look() -> AbstractContextManager[object]:
    """Put the commit file without an entry, as if there were no log store."""

    def hasty(self: DynamoDb, version: int, data: bytes, facts: CommitFacts) -> None:
        name = self.find(version)
        if self._is_there(name):
            raise ObjectExistsError(f"{name} is there")
        self._store.put(name, data)

    return patch.object(DynamoDb, "commit", hasty)


LOG_STORE_BUGS: Sequence[Bug] = (
    Bug("no recovery of an incomplete item", _recover_nothing, "append against append",
        "a crashed program does not block others", model="dynamodb", faults=1,
        kinds=frozenset({"crash"})),
    Bug("item marked complete before the commit file exists", _complete_first,
        "append against append", "items agree with the files", model="dynamodb"),
    Bug("recovery of a commit with the content of another commit", _recover_with_own_content,
        "append against append", "one winner per version", model="dynamodb"),
    Bug("own item treated as the item of another writer", _take_no_for_lost,
        "append against append", "no program leaves files behind", model="dynamodb", faults=1,
        kinds=frozenset({"lie"})),
    Bug("a failed condition treated as a success", _overwrite_entries, "append against append",
        "one winner per version", model="dynamodb"),
    Bug("commits without an item", _publish_without_a_look, "append against append",
        "one winner per version", model="dynamodb"),
)  # fmt: skip
