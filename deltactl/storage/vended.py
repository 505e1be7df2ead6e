"""Credentials that a catalog gives for a place and for a time, and that are replaced in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from deltactl.errors import DeltactlError
from deltactl.storage.names import common_address
from deltactl.storage.secrets import note_secrets

VENDED: Final = "vended"
"""The setting of ``Provider.module`` whose value is a ``Current``."""
Current: TypeAlias = Callable[[], Mapping[str, str]]
"""Returns the credentials that are valid now, by the names of storage options."""

_MARGIN_SECONDS: Final = 300.0  # new ones are fetched this long before the end (ADR 29)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Options of a storage library that are valid below ``prefix``.

    ``lifetime`` and ``ends`` are seconds, ``ends`` on the clock of ``time.monotonic``; ``None``:
    they do not end.
    """

    prefix: str
    options: Mapping[str, str] = field(repr=False)
    lifetime: float | None = None
    ends: float | None = None

    @classmethod
    def of(cls, prefix: str, options: Mapping[str, str], lifetime: float | None) -> Credentials:
        """Return credentials whose lifetime begins now."""
        ends = None if lifetime is None else time.monotonic() + lifetime
        return cls(prefix, options, lifetime, ends)

    def has_left(self, share: float, most: float = float("inf")) -> bool:
        """Return whether a share of the lifetime, and at most ``most`` seconds, are left."""
        if self.lifetime is None or self.ends is None:
            return True
        return self.ends - time.monotonic() > min(self.lifetime * share, most)


def take_vended(settings: dict[str, Any], *own: str) -> Current | None:
    """Remove the setting ``VENDED``, and ``own`` credentials of the user if it was there."""
    current: Current | None = settings.pop(VENDED, None)
    if current is not None:
        for key in own:
            settings.pop(key, None)
    return current


class CredentialSource(Protocol):
    """Fetches credentials. It is hashable, and pickled with the tasks of workers."""

    def fetch(self) -> Sequence[Credentials]:
        """Return new credentials.

        Raises:
            DeltactlError: the catalog refuses or fails.
        """


class VendedOptions(Mapping[str, str]):
    """The user's storage options, with credentials from a catalog for some places.

    As a mapping it is the user's options. What is pickled has credentials whose lifetime has just
    begun, and no secret of the catalog itself.
    """

    def __init__(
        self, base: Mapping[str, str], source: CredentialSource, given: Sequence[Credentials] = ()
    ) -> None:
        """Fetch the first credentials, unless some are ``given``."""
        self.source = source
        self._base, self._lock = dict(base), threading.Lock()
        self._given: Sequence[Credentials] = ()
        self._take(given or source.fetch())

    def __getitem__(self, key: str) -> str:
        """Return an option of the user."""
        return self._base[key]

    def __iter__(self) -> Iterator[str]:
        """Return the keys of the user's options."""
        return iter(self._base)

    def __len__(self) -> int:
        """Return the number of the user's options."""
        return len(self._base)

    def __repr__(self) -> str:
        """Show no option."""
        return f"VendedOptions({self.source!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Give a worker credentials of which at least half of the lifetime is left."""
        given = [
            # Not the end itself: the clock of another machine begins elsewhere.
            (each.prefix, each.options, None if each.ends is None else each.ends - time.monotonic())
            for each in self._fresh(0.5)
        ]
        return _restore, (self._base, self.source, given)

    @property
    def is_empty(self) -> bool:
        """Return whether the catalog gave no credentials."""
        return not self._given

    def covers(self, uri: str) -> bool:
        """Return whether there are credentials for an address."""
        return _longest(self._given, uri) is not None

    def current(self, uri: str) -> Mapping[str, str]:
        """Return options that are valid now for an address that is covered; perhaps fetch them.

        Raises:
            DeltactlError: the credentials have ended, and the catalog gives no new ones.
        """
        found = _longest(self._fresh(0.5, _MARGIN_SECONDS), uri)
        return {} if found is None else found.options

    def _fresh(self, share: float, most: float = float("inf")) -> Sequence[Credentials]:
        with self._lock:
            if not all(each.has_left(share, most) for each in self._given):
                try:
                    self._take(self.source.fetch())
                except DeltactlError:
                    # While the old ones are valid, a catalog that fails stops nothing.
                    if not all(each.has_left(0) for each in self._given):
                        raise
            return self._given

    def _take(self, given: Sequence[Credentials]) -> None:
        self._given = tuple(given)
        note_secrets(value for each in self._given for value in each.options.values())


def _restore(
    base: Mapping[str, str],
    source: CredentialSource,
    given: Sequence[tuple[str, Mapping[str, str], float | None]],
) -> VendedOptions:
    return VendedOptions(base, source, [Credentials.of(*each) for each in given])


def _longest(given: Sequence[Credentials], uri: str) -> Credentials | None:
    place = common_address(uri)
    # With the slash, s3://b/t does not cover s3://b/t2.
    fitting = [
        each for each in given if (place + "/").startswith(common_address(each.prefix) + "/")
    ]
    return max(fitting, key=lambda each: len(common_address(each.prefix)), default=None)
