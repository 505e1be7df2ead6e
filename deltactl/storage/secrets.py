"""Which storage options are secret, and where else secrets of a connection may be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_SECRET_KEY: Final = re.compile(
    r"key|secret|token|password|sas|signature|credential|connection_string", re.I
)
# Shorter texts are no secrets, and blotting them out would make messages unreadable.
_LEAST_SECRET_CHARACTERS: Final = 3
_NO_SECRETS: Final = frozenset({"anon", "browser", "cache", "cloud", "google_default"})


def secret_values(options: Mapping[str, Any], file_system: Any = None) -> tuple[str, ...]:
    """Give the values that no message may repeat, longest first.

    Those of ``options``, nested ones too, and what the file system took from the environment or
    from fsspec's configuration.
    """
    found = set(_secrets_in(options))
    for name, value in vars(file_system).items() if hasattr(file_system, "__dict__") else ():
        if _SECRET_KEY.search(name):
            found |= set(_secrets_in({name: value}))
        elif name.endswith("kwargs") and isinstance(value, Mapping):
            found |= set(_secrets_in(value))
    return tuple(sorted(found, key=len, reverse=True))


def is_secret(key: str, value: str) -> bool:
    """Tell whether an option holds what nobody else may see."""
    return next(_secrets_in({key: value}), None) is not None


def _secrets_in(options: Mapping[str, Any], *, secret: bool = False) -> Iterator[str]:
    for key, value in options.items():
        hidden = secret or _SECRET_KEY.search(str(key)) is not None
        nested = load_nested(value) if isinstance(value, str) else value
        if isinstance(nested, Mapping):
            yield from _secrets_in(nested, secret=hidden)
        elif hidden and isinstance(value, str) and value not in _NO_SECRETS:
            if len(value) >= _LEAST_SECRET_CHARACTERS:
                yield value
            # A connection string holds the key among public parts.
            for part in value.split(";"):
                name, equals, content = part.partition("=")
                if equals and _SECRET_KEY.search(name) and content:
                    yield content


def load_nested(value: str) -> Any:
    """Give a JSON object for a text that is one, and any other text as it is."""
    if value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
