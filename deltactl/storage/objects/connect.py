"""Connect to object stores. Stores with the same place and credentials share one connection.

The caches of fsspec are turned off, for two reasons. With an outdated listing, commits lose against
other writers. And fsspec's cache of instances keeps credentials that deltactl cannot remove.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any, Final
from weakref import WeakValueDictionary

from deltactl.errors import DeltactlError, StorageError, UsageError
from deltactl.option_names import option
from deltactl.storage.errors import map_error
from deltactl.storage.network.pacing import RATE_OPTION, Pacer, parse_rate
from deltactl.storage.network.traffic import Traffic
from deltactl.storage.objects.services import ObjectService
from deltactl.storage.providers import Access, Provider
from deltactl.storage.secrets import load_nested, secret_values
from deltactl.storage.vended import VENDED, VendedOptions
from deltactl.suggest import with_suggestion

_log: Final = logging.getLogger(__name__)
_IGNORING: Final = ("s3fs", "gcsfs", "adlfs")  # they take any option, and do not use an unknown one
_OTHER_OPTIONS: Final = frozenset({
    RATE_OPTION, "profile", "region",
    "listings_expiry_time", "max_paths", "skip_instance_cache", "use_listings_cache",
})  # fmt: skip
"""Options that are not parameters of the packages: those of deltactl and of fsspec."""

_services: WeakValueDictionary[tuple[object, ...], ObjectService] = WeakValueDictionary()
_recent: deque[ObjectService] = deque(maxlen=16)
"""The services that are kept when no store uses them. Each needs more than 10 MB."""
_of_parent: list[ObjectService] = []
_lock = threading.Lock()


def _after_fork() -> None:
    """Prepare a forked process.

    A thread of the parent may hold the lock. The services of the parent are never closed here: some
    libraries would send that through the parent's connection.
    """
    global _lock  # noqa: PLW0603
    _lock = threading.Lock()
    _of_parent.extend(_services.values())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def find_service(provider: Provider, uri: str, options: Mapping[str, str]) -> ObjectService:
    """Return the service of an address; tables in the same place share a connection.

    Raises:
        UsageError: an option is not valid.
        StorageError: the library cannot connect with these options.
        ImportError: the Python package of the service is not installed.
    """
    settings = {key: _typed(key, value) for key, value in options.items()}
    rate = parse_rate(settings.pop(RATE_OPTION, None))
    # The key contains the process, because a forked process must not share its parent's event loop.
    place = uri.partition("://")[2].partition("/")[0]
    # As texts, because a nested value has no hash.
    shown = sorted((name, repr(value)) for name, value in settings.items())
    scheme = uri.partition("://")[0]
    vended = options if isinstance(options, VendedOptions) and options.covers(uri) else None
    source = None if vended is None else vended.source
    opened_with = (os.getpid(), provider, tuple(shown), _environment(provider), source)
    if vended is not None:
        settings[VENDED] = partial(vended.current, uri)
    # Of an address of another kind, only fsspec knows the place.
    key = (*opened_with, uri if provider.reads_only else place, rate)
    with _lock:
        # With the lock held: two threads must not connect twice to one place.
        service = _services.get(key)
        if service is None:
            try:
                service = _services[key] = _connect(provider, uri, settings, options, rate)
                service.opened_with = opened_with
            except (ImportError, DeltactlError):
                raise
            except Exception as error:
                # `from None`: the text of the error may have a secret.
                raise _explain(error, f"{scheme}://{place}", provider.access, settings) from None
        if service in _recent:
            _recent.remove(service)
        _recent.append(service)
        return service


def _connect(
    provider: Provider,
    uri: str,
    settings: dict[str, Any],
    options: Iterable[str],
    rate: float | None,
) -> ObjectService:
    module = import_module(f"deltactl.storage.objects.{provider.module}")
    service: ObjectService = module.connect(uri, settings, Traffic(Pacer(rate)))
    if provider.package in _IGNORING:
        _warn_of_unknown(provider.package, options, service.file_system)
    return service


def _warn_of_unknown(package: str, options: Iterable[str], file_system: object) -> None:
    """Warn of options that the package ignores, for example because they are misspelled."""
    makers = (vars(kind).get("__init__") for kind in type(file_system).__mro__)
    known = _OTHER_OPTIONS.union(*(signature(maker).parameters for maker in makers if maker))
    for name in sorted(set(options) - known):
        message = f"the storage option {name} has no effect: {package} does not have it"
        _log.warning("%s", with_suggestion(message, name, known))


def _explain(
    error: Exception, place: str, access: Access, settings: Mapping[str, Any]
) -> StorageError:
    secrets = secret_values(settings)
    mapped = map_error(error, "connect to", "", place, secrets, access=access)
    if type(mapped) is not StorageError or not settings:
        return mapped
    # The library's message may contain an option: show only the type of the error.
    return StorageError(
        f"cannot connect to {place}: {type(error).__name__}",
        hint=f"Check the options given with {option('storage_options')}.",
    )


def _environment(provider: Provider) -> int:
    """Return a hash of the environment variables from which the library reads credentials."""
    found = (item for item in os.environ.items() if item[0].startswith(provider.variables))
    return hash(frozenset(found))


def _typed(key: str, value: str) -> Any:
    """Return an option in the type that the libraries expect: bool, JSON object or string."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    found = load_nested(value)
    if key.endswith("_kwargs") and not isinstance(found, Mapping):
        raise UsageError(
            f"the storage option {key} is not a JSON object",  # it may have a secret
            hint=f'Write {key}={{"name": "value"}}, in quotes of the shell.',
        )
    return found
