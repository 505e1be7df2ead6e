"""Find the secrets in storage options and connections."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

_SECRET_KEY: Final = re.compile(
    r"key|secret|token|password|sas|signature|credential|connection_string", re.I
)
# Shorter strings are not secrets. If they were removed too, messages would be unreadable.
_MIN_SECRET_CHARACTERS: Final = 3
# What gcsfs takes as a token that only says where to look for one.
_NO_SECRETS: Final = frozenset({"anon", "browser", "cache", "cloud", "google_default"})
_noted: Final[set[str]] = set()


def note_secrets(values: Iterable[str]) -> None:
    """Remember secrets that are in no option, such as credentials that a catalog gave."""
    _noted.update(value for value in values if len(value) >= _MIN_SECRET_CHARACTERS)


def hide_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace ``secrets``, and those that were noted, in a text."""
    # The longest first: a secret can be a part of another.
    for secret in sorted({*secrets, *_noted}, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def secret_values(options: Mapping[str, Any], file_system: Any = None) -> tuple[str, ...]:
    """Return the values that no message may contain, longest first.

    They are in ``options`` (also nested). They are also in values that the file system read from
    the environment or from the configuration of fsspec.
    """
    found = set(_secrets_in(options))
    for name, value in vars(file_system).items() if hasattr(file_system, "__dict__") else ():
        if _SECRET_KEY.search(name):
            found |= set(_secrets_in({name: value}))
        elif name.endswith("kwargs") and isinstance(value, Mapping):
            found |= set(_secrets_in(value))
    return tuple(sorted(found, key=len, reverse=True))


def is_secret(key: str, value: str) -> bool:
    """Return whether an option contains a secret."""
    return next(_secrets_in({key: value}), None) is not None


def _secrets_in(options: Mapping[str, Any], *, secret: bool = False) -> Iterator[str]:
    for key, value in options.items():
        hidden = secret or _SECRET_KEY.search(str(key)) is not None
        nested = load_nested(value) if isinstance(value, str) else value
        if isinstance(nested, Mapping):
            yield from _secrets_in(nested, secret=hidden)
        elif hidden and isinstance(value, str) and value not in _NO_SECRETS:
            if len(value) >= _MIN_SECRET_CHARACTERS:
                yield value
            # A connection string contains the key and also public parts.
            for part in value.split(";"):
                name, equals, content = part.partition("=")
                if equals and _SECRET_KEY.search(name) and content:
                    yield content


def load_nested(value: str) -> Any:
    """Return the JSON object in a string, and any other string unchanged."""
    if value.startswith("{"):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value
