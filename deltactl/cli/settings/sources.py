"""Find the source of a setting: option, environment, configuration files, default.

Sources are tried in order. The table's own properties come after all of these, and are read by the
operations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from deltactl.errors import UsageError, Warn
from deltactl.suggest import find_nearest, without_risky

_PREFIX: Final = "DELTACTL_"
_PREFIX_OF_ACTION: Final = "DELTACTL_ACTION_"  # inputs of the GitHub action
_OF_IMAGES: Final = "DELTACTL_VERSION"  # images of containers have the version of the program
_VARIABLE_OF_FILE: Final = "DELTACTL_CONFIG"


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


def check_variables(
    environ: Mapping[str, str],
    settings: Collection[str],
    typed_only: Collection[str],
    every: Callable[[], Collection[str]],
    warn: Warn,
) -> None:
    """Refuse variables of options that are no settings, and warn of those with a misspelled name.

    ``settings`` and ``typed_only`` are the names of the command's options that are settings and
    that are none, ``every`` of all settings. A variable whose name resembles no option may be that
    of another program.

    Raises:
        UsageError: such an option is set; without it the run might change more.
    """
    known = {_VARIABLE_OF_FILE, *map(variable_name, settings)}
    ours = {it for it in environ if it.startswith(_PREFIX) and not it.startswith(_PREFIX_OF_ACTION)}
    unknown = sorted(ours - known - {_OF_IMAGES})
    by_variable = {variable_name(option): option for option in typed_only}
    for name in unknown:
        if environ[name] and name in by_variable:
            raise UsageError(
                f"{name}: this option cannot be set by a variable",
                hint=f"Unset the variable, and give --{by_variable[name]} on the command line.",
            )
    known = known.union(map(variable_name, every())) if unknown else known
    for name in unknown:
        word = name.removeprefix(_PREFIX).lower()
        safe = without_risky(word, (it.removeprefix(_PREFIX).lower() for it in by_variable))
        near = find_nearest(word, (*(it.removeprefix(_PREFIX) for it in known), *safe))
        if near is None or name in known:
            continue
        option = by_variable.get(_PREFIX + near.upper())
        guess = f"Did you mean {_PREFIX}{near}?"
        if option is not None:
            guess = f"If you mean --{option}, give it on the command line"
        warn(f"no setting has the variable {name}. {guess}")


def find_setting(sources: Sequence[Source], key: str) -> Setting | None:
    """Return a setting from the first source that has it; ``None`` without one."""
    return next((found for source in sources if (found := source.find(key))), None)


NO: Final = ("0", "false", "no", "off")
"""The texts of a setting that is off, in lower case."""


def parse_flag(text: str) -> bool:
    """Parse yes or no.

    Raises:
        UsageError: it is neither.
    """
    lowered = text.strip().lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in NO:
        return False
    raise UsageError(f"{text!r} is neither yes nor no", hint="Write 1 for yes, or 0 for no.")
