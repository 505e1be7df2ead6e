"""Commit by a put that fails if the file exists.

On S3, tables whose writers agree on commits in DynamoDB are refused. Such a writer checks whether a
commit file exists and then puts it without a condition. Such a put can replace the commit of
deltactl, although deltactl puts with a condition. So all writers must use the same way.

Source: delta-io/delta, ``BaseExternalLogStore`` (``.tmp/``); delta-rs, ``S3DynamoDbLogStore``
(``_commit_<id>.json.tmp``).
"""

from __future__ import annotations

from typing import Final

from deltactl.errors import SafetyError
from deltactl.log.committers.committer import CommitFacts, CommitTail, Committer
from deltactl.protocol.names import LOG_DIR, TEMP_COMMITS_DIR
from deltactl.storage.names import is_local_uri
from deltactl.storage.providers import may_use_dynamodb
from deltactl.storage.store import Store

_TEMP_DIR: Final = f"{LOG_DIR}/{TEMP_COMMITS_DIR}"
_TEMP_PREFIX: Final = "_commit_"
_TEMP_SUFFIX: Final = ".json.tmp"


class PutIfAbsent(Committer):
    """The file of a version can be created once, by one writer."""

    def __init__(self, store: Store) -> None:
        """Commit to ``store``."""
        self._store = store
        self._is_safe = False

    @property
    def fails_for_good(self) -> bool:
        """Return whether the store is local: a link was either created or not."""
        return is_local_uri(self._store.uri)

    def tail(self, *, may_write: bool) -> CommitTail:
        """Return nothing: a listing shows all commits."""
        return CommitTail()

    def ensure_can_commit(self) -> None:
        """Raise an error if the store cannot do this, or if others commit in another way.

        Raises:
            SafetyError: the store does not support put-if-absent, or temporary files show that
                other writers use DynamoDB.
        """
        if self._is_safe:
            return
        # First, because the other check may write a test object.
        if may_use_dynamodb(self._store.uri):
            _refuse_foreign_commits(self._store)
        self._store.ensure_put_if_absent()
        self._is_safe = True

    def commit(self, version: int, content: bytes, facts: CommitFacts) -> None:
        """Put the commit file, unless it exists; see ``Committer.commit``."""
        self.ensure_can_commit()
        self._store.put_if_absent(self.find(version), content)


def _refuse_foreign_commits(store: Store) -> None:
    sign = _find_foreign_commit(store)
    if sign is not None:
        raise SafetyError(
            f"{store.uri} contains the temporary commit file {sign!r} of another writer. That "
            "writer coordinates its commits outside of S3, and could overwrite a commit of this "
            "run",
            hint="Add --log-store dynamodb, as the other writer does (see "
            "docs/object-store-commits.md). If no writer uses DynamoDB for this table any more, "
            f"delete {_TEMP_DIR}/* and {LOG_DIR}/{_TEMP_PREFIX}*{_TEMP_SUFFIX}. Nothing was "
            "committed.",
        )


def _find_foreign_commit(store: Store) -> str | None:
    """Return the name of a temporary commit file of such a writer; ``None`` if the log has none."""
    for names in store.walk(_TEMP_DIR):
        if names:
            return names[0]
    # Few names follow: those of commits and checkpoints begin with a digit, which is before "_".
    for info in store.list_from(LOG_DIR, _TEMP_PREFIX):
        last = info.name.rpartition("/")[2]
        if last.startswith(_TEMP_PREFIX) and last.endswith(_TEMP_SUFFIX):
            return info.name
    return None
