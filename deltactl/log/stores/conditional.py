"""Commit by conditional put, and refuse tables whose writers agree on commits in DynamoDB.

A writer that uses DynamoDB checks whether a commit file exists and then puts it without a
condition. Such a put can replace the commit of deltactl, although deltactl puts with a condition.
So all writers must use the same way.

Source: delta-io/delta, ``BaseExternalLogStore`` (``.tmp/``); delta-rs, ``S3DynamoDbLogStore``
(``_commit_<id>.json.tmp``).
"""

from __future__ import annotations

from typing import Final

from deltactl.errors import SafetyError
from deltactl.protocol.names import LOG_DIR, commit_version
from deltactl.storage.forwarding import ForwardingStore
from deltactl.storage.store import Store

_TEMP_DIR: Final = f"{LOG_DIR}/.tmp"
_TEMP_PREFIX: Final = "_commit_"
_TEMP_SUFFIX: Final = ".json.tmp"


class ConditionalCommitStore(ForwardingStore):
    """A store on S3 in which only conditional puts decide commits.

    If temporary files show that other writers use DynamoDB, the first commit is refused.
    """

    def __init__(self, inner: Store) -> None:
        """Commit to ``inner``."""
        super().__init__(inner)
        self._is_alone = False

    def ensure_put_if_absent(self) -> None:
        """See ``Store.ensure_put_if_absent``.

        Raises:
            SafetyError: the store does not support put-if-absent, or other writers do not use it.
        """
        if self._is_alone:
            return
        sign = find_foreign_commit(self._inner)
        if sign is not None:
            raise SafetyError(
                f"{self.uri} contains the temporary commit file {sign!r} of another writer. That "
                "writer coordinates its commits outside of S3, and could overwrite a commit of "
                "this run",
                hint="Add --log-store dynamodb, as the other writer does (see "
                "docs/object-store-commits.md). If no writer uses DynamoDB for this table any "
                f"more, delete {_TEMP_DIR}/* and {LOG_DIR}/{_TEMP_PREFIX}*{_TEMP_SUFFIX}. Nothing "
                "was committed.",
            )
        self._inner.ensure_put_if_absent()
        self._is_alone = True

    def put_if_absent(self, name: str, data: bytes) -> None:
        """See ``Store.put_if_absent``."""
        if commit_version(name) is not None:
            self.ensure_put_if_absent()
        super().put_if_absent(name, data)


def find_foreign_commit(store: Store) -> str | None:
    """Return the name of a temporary commit file of such a writer; ``None`` if the log has none."""
    for names in store.walk(_TEMP_DIR):
        if names:
            return names[0]
    for info in store.list_from(LOG_DIR, _TEMP_PREFIX):
        last = info.name.rpartition("/")[2]
        if last.startswith(_TEMP_PREFIX) and last.endswith(_TEMP_SUFFIX):
            return info.name
    return None
