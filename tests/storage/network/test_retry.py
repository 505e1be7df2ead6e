"""What may be sent again is, with growing pauses, and nothing else."""

from contextlib import suppress
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from deltactl.errors import SafetyError
from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.objects.store import ObjectStore


class _Call:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def test_what_passes_is_tried_again_with_growing_pauses() -> None:
    delays: list[float] = []
    call = _Call(ConnectionResetError(), TimeoutError(), BrokenPipeError())
    assert RetryPolicy(sleep=delays.append, jitter=lambda: 0.5).call(call) == "done"
    assert delays == pytest.approx([0.15, 0.3, 0.6])


def test_the_last_error_is_raised_after_all_attempts() -> None:
    call = _Call(*(ConnectionResetError(str(number)) for number in range(9)))
    with pytest.raises(ConnectionResetError, match="2"):
        RetryPolicy(attempts=3, sleep=lambda _: None).call(call)
    assert call.calls == 3


@pytest.mark.parametrize(
    "error", [FileNotFoundError(), PermissionError(), ValueError(), SafetyError("no")]
)
def test_what_lasts_is_not_tried_again(error: Exception) -> None:
    call = _Call(error)
    with pytest.raises(type(error)):
        RetryPolicy(sleep=lambda _: None).call(call)
    assert call.calls == 1


def test_many_puts_have_it_each(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [ConnectionResetError(), TimeoutError()]
    delays: list[float] = []
    files: Any = MemoryFileSystem(
        global_store=False, use_listings_cache=False, skip_instance_cache=True
    )
    put = files.pipe_file

    def refuse_at_first(*arguments: Any) -> None:
        with suppress(IndexError):
            raise errors.pop()
        put(*arguments)

    monkeypatch.setattr(files, "pipe_file", refuse_at_first)
    store = ObjectStore(
        "memory://root",
        ObjectService(files, RetryPolicy(sleep=delays.append)),
        "/root",
        schemes=frozenset({"memory"}),
    )
    names = [f"p={number}/manifest" for number in range(20)]
    assert store.put_many((name, name.encode()) for name in names) == 20
    assert len(delays) == 2
    assert list(store.read_many(names)) == [name.encode() for name in names]
