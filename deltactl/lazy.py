"""Attributes that are computed when they are first read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["cached_property"]

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property
else:

    class cached_property:  # noqa: N801 - the name of the standard library
        """``functools.cached_property`` as it is since Python 3.12: without a lock.

        Before, one lock serves all instances of a class. While one table is read from a storage
        that hangs, other tables wait; and if a process forks then, the child waits for ever.
        """

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            # If two threads compute it, both get the value that is stored first.
            return instance.__dict__.setdefault(self._name, self._compute(instance))
