"""Commit through DynamoDB: the protocol of Delta for several writers on S3.

The entry of a commit in the external store decides the commit: only one writer can create it. Until
the commit file exists, any writer or reader of the protocol may finish the commit. A commit has
these steps:

1. If necessary, the commit of the previous version is finished.
2. The content is written to a temporary file.
3. An incomplete entry with the name of the temporary file is created. From now on the commit is
   part of the table.
4. The content is put under the name of the commit file.
5. The entry is marked as complete. The external store deletes it a day later.

Temporary files are kept, because another writer may be finishing the same commit.

Source: delta-io/delta, storage-s3-dynamodb, ``BaseExternalLogStore``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import quote

from deltactl.clock import Clock
from deltactl.errors import (
    AccessDeniedError,
    CorruptLogError,
    LogGapError,
    ObjectExistsError,
    ObjectNotFoundError,
    SafetyError,
    StorageError,
    TransientStorageError,
)
from deltactl.log.committers.committer import CommitFacts, CommitTail, Committer, create_file
from deltactl.protocol.names import LOG_DIR, TEMP_COMMITS_DIR, commit_name, parse_commit_name
from deltactl.storage.dynamodb import CommitEntries, CommitEntry
from deltactl.storage.names import is_absolute_name
from deltactl.storage.providers import S3
from deltactl.storage.store import Store

# This is long enough: a writer that checked before this commit has found the commit by then.
_EXPIRES_AFTER_SECONDS: Final = 24 * 3600


class DynamoDb(Committer):
    """Entries of an external store decide commits.

    Entries are found by the table's address as a string, so all writers must use the same string.
    """

    def __init__(self, store: Store, entries: CommitEntries, clock: Clock) -> None:
        """Commit to ``store`` with ``entries``."""
        self._store = store
        self._entries = entries
        self._clock = clock
        self._is_spelled_alike = False

    def tail(self, *, may_write: bool) -> CommitTail:
        """Finish the newest commit, which is part of the table already: a listing shows it then."""
        # A run that may not write cannot finish this commit, and so may not see it.
        entry = self._entries.find_latest(self.uri) if may_write else None
        if entry is None:
            return CommitTail()
        if not entry.complete:
            self._finish(entry)
        return CommitTail(known_version=parse_commit_name(entry.file_name))

    def find_newest(self) -> int | None:
        """Return the version of the newest entry."""
        entry = self._entries.find_latest(self.uri)
        return None if entry is None else parse_commit_name(entry.file_name)

    def find_loss(self, version: int) -> LogGapError | None:
        """Return an error if the entry of a version cannot be finished; see ``Committer``."""
        entry = self._entries.get(self.uri, commit_name(version))
        return None if entry is None else self._find_loss(entry)

    def _find_loss(self, entry: CommitEntry) -> LogGapError | None:
        has_content = self._is_there(_temp_name(entry))
        # Some writers move the temporary file to the commit file: look for this one last.
        if (has_content and not entry.complete) or self._is_there(f"{LOG_DIR}/{entry.file_name}"):
            return None
        return self._loss(entry, has_content=has_content)

    def _loss(self, entry: CommitEntry, *, has_content: bool) -> LogGapError:
        """Return the error for an entry without its commit file.

        A complete entry is not finished from its temporary file: it may be of a table that was
        deleted, or of a version that a restore of the log took back on purpose.
        """
        bucket = f"s3://{self.uri.partition('://')[2]}"
        names = (f"{bucket}/{LOG_DIR}/{name}" for name in (entry.temp_path, entry.file_name))
        copy = f"aws s3 cp {' '.join(map(shlex.quote, names))}"
        otherwise = (
            "If the table was deleted, or restored from a backup, and this version may be lost: "
            "stop all writers of this table, and delete the DynamoDB items whose table path is "
            f"{self.uri!r}. Then rerun."
        )
        return LogGapError(
            f"DynamoDB has an entry for the commit {LOG_DIR}/{entry.file_name} of {self.uri}, but "
            "the log does not have this commit. Either its file was deleted, for example by a "
            "lifecycle rule, or the table was deleted, or it was restored from a backup that lacks "
            "this version",
            hint=f"Copy the commit back if its file was deleted: `{copy}`. {otherwise}"
            if has_content
            else "Restore the file from an older object version or from a backup if it was "
            f"deleted. {otherwise}",
        )

    @property
    def uri(self) -> str:
        """Return the table's root as an absolute URI."""
        return self._store.uri

    def ensure_can_commit(self) -> None:
        """Raise an error if other writers use another spelling of this table's address.

        Raises:
            SafetyError: other writers use another spelling.
            StorageError: the external store failed.
        """
        if self._is_spelled_alike:
            return
        ours = self._entries.find_latest(self.uri)
        for other in _list_spellings(self.uri):
            theirs = self._entries.find_latest(other)
            if theirs is not None and (ours is None or ours.file_name < theirs.file_name):
                raise SafetyError(
                    f"other writers commit to this table with the address {other!r}, but this "
                    f"run uses {self.uri!r}. DynamoDB treats the two addresses as two tables",
                    hint=f"Rerun with {other!r}. If no writer uses {other!r} any more, delete the "
                    f"DynamoDB items whose table path is {other!r}. Nothing was committed.",
                )
        self._is_spelled_alike = True

    def commit(self, version: int, content: bytes, facts: CommitFacts) -> None:
        """Commit with an entry.

        Raises:
            ObjectExistsError: the commit file exists. It can be another commit, or this one, after
                an earlier attempt or because another writer finished it. Read the file back.
            SafetyError: writers use different addresses, or the entries do not match the log.
            StorageError: any other error; the outcome is unknown.
        """
        name = self.find(version)
        self.ensure_can_commit()
        # The entry of an old commit has expired: then only the file shows that the version exists.
        if self._is_there(name):
            raise _taken(name)
        # Else the log could get this version while the file of the previous one is missing.
        self._finish_version(version - 1)
        file_name = commit_name(version)
        entry = CommitEntry(file_name, f"{TEMP_COMMITS_DIR}/{file_name}.{self._clock.new_id()}")
        self._store.put(f"{LOG_DIR}/{entry.temp_path}", content)
        won = self._entries.create(self.uri, entry)
        with _decided(name):
            if not won:
                self._give_way(entry)
            self._end(entry, content)

    def _give_way(self, entry: CommitEntry) -> None:
        """Finish the commit of the writer that created the entry, and raise ``ObjectExistsError``.

        If this run created the entry, only return.
        """
        found = self._entries.get(self.uri, entry.file_name)
        if found is not None and found.temp_path == entry.temp_path:
            return  # the library sent the request twice, and the first attempt succeeded
        name = f"{LOG_DIR}/{entry.file_name}"
        # No entry references the temporary file, and none will.
        self._store.delete_many([f"{LOG_DIR}/{entry.temp_path}"])
        if found is not None and not found.complete:
            self._finish(found)
        elif found is not None and (loss := self._find_loss(found)) is not None:
            raise SafetyError(loss.message, hint=loss.hint)
        raise _taken(name)

    def _end(self, entry: CommitEntry, data: bytes) -> None:
        """Put the commit file of a decided commit; raise if it must be read back."""
        taken: ObjectExistsError | None = None
        try:
            create_file(self._store, f"{LOG_DIR}/{entry.file_name}", data)
        except ObjectExistsError as error:
            taken = error
        try:
            # Also if the file exists: it may be this commit, which another program finished.
            is_ours = self._complete(entry)
        except StorageError:
            is_ours = True  # the next program that lists the log marks it as complete
        if not is_ours:
            raise TransientStorageError(
                f"another writer overwrote the DynamoDB entry for {entry.file_name} of table "
                f"{self.uri}",
                hint="Stop the other writer: it ignores entries of other writers in DynamoDB. Then "
                "rerun.",
            )
        if taken is not None:
            raise taken

    def _finish_version(self, version: int) -> None:
        entry = self._entries.get(self.uri, commit_name(version)) if version >= 0 else None
        if entry is not None and not entry.complete:
            self._finish(entry)

    def _finish(self, entry: CommitEntry) -> None:
        """Do the remaining steps of a commit of any writer.

        Raises:
            LogGapError: the content of the commit does not exist.
        """
        name = f"{LOG_DIR}/{entry.file_name}"
        if not self._is_there(name):
            try:
                data = self._store.read(_temp_name(entry))
            except ObjectNotFoundError as error:
                # Some writers move the temporary file instead of copying it.
                if not self._is_there(name):
                    raise self._loss(entry, has_content=False) from error
            else:
                with suppress(ObjectExistsError):
                    create_file(self._store, name, data)
        # The commit counts already. The next program that finds the entry marks it as complete.
        with suppress(StorageError):
            self._complete(entry)

    def _complete(self, entry: CommitEntry) -> bool:
        # DynamoDB expires items by a number of seconds.
        expires_s = self._clock.now_ms() // 1000 + _EXPIRES_AFTER_SECONDS
        return self._entries.complete(self.uri, entry, expires_s)

    def _is_there(self, name: str) -> bool:
        return self._store.stat_many([name]) != [None]


@contextmanager
def _decided(name: str) -> Iterator[None]:
    """If a request is denied, report an unknown outcome, because the commit is already decided."""
    try:
        yield
    except AccessDeniedError as error:
        raise TransientStorageError(
            f"DynamoDB has the entry for the commit {name!r}, but this run could not finish the "
            f"commit: {error.message}",
            hint=error.hint,
        ) from error


def _list_spellings(uri: str) -> list[str]:
    """Return other spellings of the same address: Delta decodes an address, delta-rs encodes it."""
    rest = uri.partition("://")[2]
    spelled = {f"{scheme}://{way}" for scheme in S3.schemes for way in (rest, quote(rest))}
    return sorted(spelled - {uri})


def _temp_name(entry: CommitEntry) -> str:
    """Return the name of the temporary file of an entry.

    Other writers can write entries, so the content of an entry is not trusted.
    """
    path = entry.temp_path
    if is_absolute_name(path) or ".." in path.split("/") or "/" in entry.file_name:
        raise CorruptLogError(
            f"the DynamoDB entry for {entry.file_name!r} names a temporary file outside of the "
            f"log: {path!r}"
        )
    return f"{LOG_DIR}/{path}"


def _taken(name: str) -> ObjectExistsError:
    return ObjectExistsError(f"cannot create {name!r}: another commit has this name")
