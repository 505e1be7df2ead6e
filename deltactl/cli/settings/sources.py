"""Find the source of a setting: option, environment, configuration files, default.

Sources are tried in order. The table's own properties come after all of these, and are read by the
operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from deltactl.errors import UsageError
from deltactl.suggest import with_suggestion

_PREFIX: Final = "DELTACTL_"
_OTHER_VARIABLES: Final = frozenset({"DELTACTL_CONFIG"})


class Origin(StrEnum):
    """Kinds of sources of a setting."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    PROPERTY = "table property"
    DEFAULT = "default"


class Setting(NamedTuple):
    """The text of a setting: where it is, and in which kind of source."""

    place: str
    text: str
    origin: Origin


class Source(Protocol):
    """A source of settings, as text."""

    def find(self, key: str) -> Setting | None:
        """Return the setting ``key``, or None if it is not set."""
        ...


@dataclass(frozen=True, slots=True)
class EnvironmentSource:
    """``DELTACTL_<KEY>``. An empty variable counts as not set."""

    environ: Mapping[str, str]

    def find(self, key: str) -> Setting | None:
        """Return the variable, if it is set."""
        name = variable_name(key)
        text = self.environ.get(name)
        return Setting(name, text, Origin.ENVIRONMENT) if text else None


def variable_name(key: str) -> str:
    """Return the variable of a setting: ``DELTACTL_TARGET_SIZE`` for ``target-size``."""
    return _PREFIX + key.replace("-", "_").upper()


def ensure_known_variables(environ: Mapping[str, str], settings: Iterable[str]) -> None:
    """Refuse a variable that no setting has.

    Raises:
        UsageError: the message has the nearest name.
    """
    known = {*map(variable_name, settings), *_OTHER_VARIABLES}
    for name in sorted(environ):
        if name.startswith(_PREFIX) and name not in known:
            raise UsageError(
                with_suggestion(f"no setting has the variable {name}", name, known),
                hint="Unset it, or run `deltactl config` without it for a list of the settings.",
            )


def find_setting(sources: Sequence[Source], key: str) -> Setting | None:
    """Return a setting from the first source that has it; ``None`` without one."""
    return next((found for source in sources if (found := source.find(key))), None)


def parse_flag(text: str) -> bool:
    """Parse yes or no.

    Raises:
        UsageError: it is neither.
    """
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise UsageError(f"{text!r} is neither yes nor no", hint="Write 1 for yes, or 0 for no.")
