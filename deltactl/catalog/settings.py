"""Find the settings of a catalog: storage options, environment, deltactl.toml, files of others.

What a source says besides the host is used only for the host that it names: a token never goes to
the host of another source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Final, TypeAlias

from deltactl.catalog.kinds import KINDS, CatalogKind
from deltactl.catalog.names import TableName
from deltactl.errors import UsageError

SECTION: Final = "catalog."
"""Storage options that come from ``[catalog.NAME]`` in deltactl.toml begin with this."""
_REFERENCE: Final = "env:"
_OF_FILES: Final = ("profile", "config-file", "conf-dir")
OnWrong: TypeAlias = Callable[[str, UsageError], None]
"""Called with the key of a setting and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Found:
    """The value of a setting, and where it was found: a variable, or a file and a key."""

    value: str = field(repr=False)
    place: str


def _fail(_key: str, error: UsageError) -> None:
    raise error


def find_settings(
    name: TableName,
    options: Mapping[str, str],
    environ: Mapping[str, str],
    on_wrong: OnWrong = _fail,
) -> dict[str, Found]:
    """Return the settings for a catalog by their keys.

    Sections of deltactl.toml have the name of the catalog (the first part of a table's name) or of
    the scheme. A setting that ``on_wrong`` gets is ignored; without it, that is an error.

    Raises:
        UsageError: a setting refers to a variable that is not set, or a file cannot be used.
    """
    kind = KINDS[name.scheme]
    found: dict[str, Found] = {}
    for source in (
        _from_options(kind, options),
        _from_variables(kind, environ, ""),
        *(
            _from_section(kind, section, options, environ, on_wrong)
            for section in (name.parts[0], name.scheme)
        ),
    ):
        merge_settings(found, source)
    try:
        merge_settings(found, import_module(kind.module).read_files(found, environ))
    except UsageError as error:
        keys = [setting.key for setting in kind.settings if setting.key in _OF_FILES]
        on_wrong(next((key for key in keys if key in found), keys[-1]), error)
    return found


def merge_settings(found: dict[str, Found], further: Mapping[str, Found]) -> None:
    """Add settings of a source with a lower priority, unless they are of another host."""
    host, other = found.get("host"), further.get("host")
    if host is None or other is None or host.value.rstrip("/") == other.value.rstrip("/"):
        found.update({key: value for key, value in further.items() if key not in found})


def without_settings(options: Mapping[str, str]) -> dict[str, str]:
    """Return the storage options that are not settings of catalogs."""
    names = {
        name.lower() for kind in KINDS.values() for it in kind.settings for name in it.variables
    }
    return {
        key: value
        for key, value in options.items()
        if key not in names and not key.startswith(SECTION)
    }


def options_for_workers(name: TableName, found: Mapping[str, Found]) -> dict[str, str]:
    """Return the settings that workers need and that are no secrets, as storage options."""
    return {
        setting.variables[0].lower(): found[setting.key].value
        for setting in KINDS[name.scheme].settings
        if setting.is_sent and setting.key in found
    }


def _from_variables(kind: CatalogKind, source: Mapping[str, str], place: str) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for setting in kind.settings:
        for variable in setting.variables:
            if source.get(variable):
                found.setdefault(setting.key, Found(source[variable], place + variable))
    return found


def _from_options(kind: CatalogKind, options: Mapping[str, str]) -> dict[str, Found]:
    found = _from_variables(kind, {key.upper(): options[key] for key in options}, "option ")
    shared = {
        setting.key: Found(options[setting.option], f"option {setting.option}")
        for setting in kind.settings
        if options.get(setting.option)
    }
    return {**shared, **found}


def _from_section(
    kind: CatalogKind,
    section: str,
    options: Mapping[str, str],
    environ: Mapping[str, str],
    on_wrong: OnWrong,
) -> dict[str, Found]:
    found: dict[str, Found] = {}
    for setting in kind.settings:
        place = f"{SECTION}{section}.{setting.key}"
        value = options.get(place, "")
        if value.startswith(_REFERENCE):
            variable = value.removeprefix(_REFERENCE)
            if variable not in environ:
                said = f"{place} refers to the environment variable {variable}, which is not set"
                hint = "Set the variable, or name one that is set."
                on_wrong(setting.key, UsageError(said, hint=hint))
            value = environ.get(variable, "")
        if value:
            found[setting.key] = Found(value, place)
    return found
