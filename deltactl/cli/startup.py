"""Let a command start fast: configure and load Arrow, and compile methods only when called."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final


class _NoPandas:
    """An import finder that hides pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Find no module; for pandas, raise an error instead of asking the next finder."""
        if name == "pandas":
            raise ModuleNotFoundError("pandas is hidden for this import", name=name)


_POOL: Final = "ARROW_DEFAULT_MEMORY_POOL"
_M_ARENA_MAX: Final = -8  # of mallopt(3)
_CREATE: Final = "_create_fn"
_PARAMETERS: Final = ("name", "args", "body")
_KEYWORDS: Final = {"globals", "locals", "return_type"}


def load_arrow(*, uses_system_pool: bool = False) -> None:
    """Import Arrow, and make its first array while pandas is hidden: deltactl does not use pandas.

    pyarrow would import pandas only to check whether the values are pandas objects. That takes as
    long as all other imports together. Later imports of pandas still work; only pyarrow runs
    without it in this process.

    Args:
        uses_system_pool: take memory from the C library, which keeps fewer free pages than Arrow's
            own allocator; which one is faster depends on the command. If the
            variable ``ARROW_DEFAULT_MEMORY_POOL`` is set, it decides.
    """
    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    chooses = uses_system_pool and _POOL not in os.environ and "pyarrow" not in sys.modules
    if chooses:
        os.environ[_POOL] = "system"  # Arrow reads it once, before its first array
        _share_free_memory()
    try:
        import pyarrow as pa

        pa.array([0])
        if chooses:
            from deltactl.engine.memory_pool import make_replaceable

            make_replaceable()
    finally:
        sys.meta_path.remove(finder)
        if chooses:
            del os.environ[_POOL]  # it is not meant for processes that this one starts


def _share_free_memory() -> None:
    """Let all threads allocate from one arena of the C library, if it is glibc.

    By default each thread has its own, whose free memory no other thread can use: a run that
    clusters 380 MB took 800 MB at its peak, and 490 MB with one arena, in the same time.
    """
    import ctypes

    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_M_ARENA_MAX, 1)


def build_methods_late() -> bool:
    """Let each method of dataclasses that are defined from now on be compiled by its first call.

    `dataclasses` compiles up to six methods of a class when the class is defined. A command defines
    100 to 180 such classes while it loads its modules, and calls few of their methods.

    The methods are compiled from the same text. `dataclasses` has no public setting for this: it is
    done only if the private function that compiles has the form of Python 3.11 and 3.12. Later
    versions compile all methods of a class at once.

    Returns:
        Whether it is done.
    """
    create: Any = getattr(dataclasses, _CREATE, None)
    if getattr(create, "is_late", False):
        return True
    if not _has_known_form(create):
        return False

    def create_late(name: str, args: Sequence[str], body: Sequence[str], **others: Any) -> Any:
        return _Late(name, lambda: create(name, args, body, **others)).method

    create_late.is_late = True  # type: ignore[attr-defined]
    setattr(dataclasses, _CREATE, create_late)
    return True


def _has_known_form(create: Any) -> bool:
    code = getattr(create, "__code__", None)
    if code is None:
        return False
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return names[:3] == _PARAMETERS and set(names[3:]) == _KEYWORDS


class _Late:
    """A method that its first call replaces, in the class that has it, by the compiled method."""

    def __init__(self, name: str, create: Callable[[], Any]) -> None:
        self._name, self._create = name, create
        self._built: Any = None

        def method(instance: Any, *args: Any, **kwargs: Any) -> Any:
            return self._build(type(instance))(instance, *args, **kwargs)

        method.__name__ = name
        self.method = method

    def _build(self, of: type) -> Any:
        if self._built is None:  # the class has another method if this one is wrapped
            self._built = self._create()
            self._built.__qualname__ = self.method.__qualname__
        for owner in of.__mro__:
            if owner.__dict__.get(self._name) is self.method:
                setattr(owner, self._name, self._built)
        return self._built
