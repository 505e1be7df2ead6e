"""Attributes that are computed when they are first read."""

import threading
from concurrent.futures import ThreadPoolExecutor

from deltactl.lazy import cached_property


class _Table:
    """``files`` are read from a storage that answers when it is told to."""

    def __init__(self, *, answers: bool) -> None:
        self.answer, self.calls = threading.Event(), 0
        if answers:
            self.answer.set()

    @cached_property
    def files(self) -> object:
        """Return the files."""
        self.calls += 1
        assert self.answer.wait(60)
        return object()


def test_a_value_is_computed_once() -> None:
    table = _Table(answers=True)
    assert table.files is table.files
    assert table.calls == 1


def test_no_instance_waits_for_another() -> None:
    slow, fast = _Table(answers=False), _Table(answers=True)
    with ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(lambda: slow.files)
        try:
            assert threads.submit(lambda: fast.files).result(30) is fast.files
            assert not waiting.done()
        finally:
            slow.answer.set()
    assert waiting.result() is slow.files


def test_all_threads_get_one_value() -> None:
    table = _Table(answers=False)
    with ThreadPoolExecutor(4) as threads:
        values = [threads.submit(lambda: table.files) for _ in range(4)]
        table.answer.set()
    assert {value.result() for value in values} == {table.files}


def test_the_class_has_the_text() -> None:
    assert _Table.files.__doc__ == "Return the files."
