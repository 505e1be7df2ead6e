"""After a put that succeeded, the commit is read again."""

from collections.abc import Callable

import pytest

from deltactl.errors import CommitDamagedError, CommitOutcomeUnknownError, StorageError
from deltactl.storage.store import Store
from tests.support.commits import put_commit
from tests.support.forwarding import ForwardingStore
from tests.support.stores import CountingStore, Fault, FaultyStore, MemoryStore
from tests.support.table_builder import commit_path

NAME = commit_path(1)
OURS = b'{"commitInfo":{"txnId":"ours"}}\n{"add":{}}\n'


class _Beside(ForwardingStore):
    """Another writer acts after each successful put."""

    def __init__(self, inner: Store, act: Callable[[Store], object]) -> None:
        super().__init__(inner)
        self._act = act

    def put_if_absent(self, name: str, data: bytes) -> None:
        super().put_if_absent(name, data)
        self._act(self._inner)


@pytest.mark.parametrize("theirs", [b'{"commitInfo":{"txnId":"them"}}\n', b"{}\n", b""])
def test_a_commit_that_was_overwritten_is_an_error(theirs: bytes) -> None:
    """Spark's S3SingleDriverLogStore looks whether a commit exists, and then puts its own."""
    store = MemoryStore(f"memory://put/{len(theirs)}")
    racing = _Beside(store, lambda inner: inner.put(NAME, theirs))
    with pytest.raises(CommitDamagedError, match="overwritten") as caught:
        put_commit(racing, NAME, OURS)
    assert caught.value.exit_code == 1
    assert store.read(NAME) == theirs


def test_a_commit_that_was_deleted_is_not_put_again() -> None:
    store = MemoryStore("memory://put/deleted")
    racing = _Beside(store, lambda inner: inner.delete_many([NAME]))
    with pytest.raises(CommitDamagedError, match="deleted"):
        put_commit(racing, NAME, OURS)
    assert store.stat_many([NAME]) == [None]


@pytest.mark.parametrize("failures", [2, 9])
def test_a_commit_that_cannot_be_read_again_is_not_put_again(failures: int) -> None:
    store = MemoryStore(f"memory://put/{failures}-failures")
    faults = [Fault(i, "error", "before", "read_ranges") for i in range(1, failures + 1)]
    counting = CountingStore(FaultyStore(store, *faults))
    if failures < 5:
        assert put_commit(counting, NAME, OURS)
    else:
        with pytest.raises(CommitOutcomeUnknownError) as caught:
            put_commit(counting, NAME, OURS)
        assert isinstance(caught.value.__cause__, StorageError)
    assert counting.calls["put_if_absent"] == 1
