"""``deltactl.toml``: find, read and check it, and look up settings.

A file has settings for all commands, a section per command, and profiles for the tables that
their patterns match::

    output = "json"

    [optimize]
    target-size = "256MiB"

    [profiles.small]
    tables = ["small/*", "s3://lake/staging/*"]
    engine = "local"

    [profiles.small.optimize]
    target-size = "64MiB"

The first of these that has a setting applies: a profile's section for the command, the profile,
the command's section, the top of the file. A section ``commit`` is for all commands that commit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final

from deltactl.cli.settings.sources import EnvironmentSource, Origin, Setting, Source
from deltactl.commit_options import SECTION, CommitOptions
from deltactl.errors import UsageError
from deltactl.suggest import with_suggestion

FILE_NAME: Final = "deltactl.toml"
_VARIABLE: Final = "DELTACTL_CONFIG"
_HINT_TO_CORRECT: Final = (
    f"Correct or unset {_VARIABLE}, which names this file (/dev/null: use no file)."
)
_HINT_TO_OPEN: Final = (
    f"Give this user access, or set {_VARIABLE} to another file (/dev/null: to none)."
)
_HINT_TO_WRITE: Final = (
    "Correct the file. Write texts in quotes, such as target-size = '1GiB'. `deltactl config` "
    "lists the settings."
)
_PROFILES: Final = "profiles"
_CATALOG: Final = "catalog"
_TABLES: Final = "tables"


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A file's settings for one command and table (see ``settings.Source``)."""

    path: Path
    content: Mapping[str, Any]
    commands: frozenset[str]
    command: str | None = None
    table: str | None = None
    profile_of: dict[str, str | None] = field(default_factory=dict)
    """The profile of each table that was asked for."""

    def find(self, key: str) -> Setting | None:
        """Return the place and the text of a setting; items of a list are joined with commas."""
        for name, section in self._sections():
            if key in section:
                place = f"{self.path}: {_join(name, key)}"
                return Setting(place, _as_text(section[key]), Origin.FILE)
        return None

    def _sections(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return the sections that may contain a setting, in the order in which they apply."""
        command = self.command or ""
        name = None if self.table is None else self._find_profile(self.table)
        if name is not None:
            profile = self.content[_PROFILES][name]
            yield f"{_PROFILES}.{name}.{command}", profile.get(command, {})
            yield f"{_PROFILES}.{name}.{SECTION}", profile.get(SECTION, {})
            yield f"{_PROFILES}.{name}", profile
        yield command, self.content.get(command, {})
        yield SECTION, self.content.get(SECTION, {})
        yield "", self.content

    def _find_profile(self, table: str) -> str | None:
        """Return the first profile that has a table; each table is matched once."""
        if table not in self.profile_of:
            found = (it for it in self.content.get(_PROFILES, {}) if self.has_in_profile(it, table))
            self.profile_of[table] = next(found, None)
        return self.profile_of[table]

    def has_in_profile(self, name: str, table: str) -> bool:
        """Return whether a pattern of a profile matches a table."""
        from deltactl.cli.settings.patterns import matches_table  # only if there is a profile

        return matches_table(self.content[_PROFILES][name][_TABLES], table, self.path.parent)

    def check(
        self, command: str, settings: Collection[str], every: Callable[[], Collection[str]]
    ) -> None:
        """Refuse keys that are no settings, and values that are no texts.

        The keys in a command's own sections must be settings of this command; ``every`` are the
        settings of all commands.

        Raises:
            UsageError: there is such a key or value.
        """
        for place, name, section in self._all_sections():
            for key, value in section.items():
                at = _join(place, key)
                known = _keys_of(name) or set(settings)
                if key not in known and name not in (command, _CATALOG, SECTION):
                    known |= {*every(), *(() if name else self.commands)}
                if key not in known:
                    raise _no_setting(self.path, at, key, known, name)
                if isinstance(value, dict) or (isinstance(value, list) and not _is_texts(value)):
                    raise UsageError(f"{self.path}: {at} is neither a string nor a list of strings")

    def _all_sections(self) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
        """Return each section without those in it: its place, its command, its content."""
        profiles = self.content.get(_PROFILES, {})
        places = {"": self.content, **{_join(_PROFILES, it): profiles[it] for it in profiles}}
        inner = {*self.commands, _PROFILES, _CATALOG, _TABLES}
        for place, outer in places.items():
            yield place, "", {key: outer[key] for key in outer if key not in inner}
            for command in outer.keys() & self.commands:
                yield _join(place, command), command, outer[command]
        for name, section in self.content.get(_CATALOG, {}).items():
            yield _join(_CATALOG, name), _CATALOG, section


class Settings:
    """The settings of one run: from the environment, then from files, read when first needed."""

    def __init__(self, environ: Mapping[str, str], commands: Collection[str]) -> None:
        self._environ, self._commands = environ, commands
        self._first: list[ConfigSource] = []

    def put_first(self, path: Path, command: str) -> None:
        """Give a command's settings of a file priority over the environment and other files.

        Raises:
            UsageError: it cannot be understood, or all of its sections are of other commands.
        """
        file = load_config_file(path, self._commands)
        others = {*self._commands} - {command, SECTION}
        if file.content and file.content.keys() <= others:
            raise UsageError(
                f"{path}: has no setting of {command}",
                hint=f"Write the settings under [{command}].",
            )
        self._first.append(file)

    @cached_property
    def _files(self) -> list[ConfigSource]:
        try:
            here = Path.cwd()
        except OSError as error:
            raise UsageError(
                f"the working directory cannot be read: {error.strerror}",
                hint="Change to another directory, then rerun.",
            ) from error
        paths = find_config_files(self._environ, here)
        hint = _HINT_TO_CORRECT if self._environ.get(_VARIABLE) else _HINT_TO_OPEN
        return [load_config_file(path, self._commands, hint=hint) for path in paths]

    def sources_for(self, command: str | None, table: str | None) -> tuple[Source, ...]:
        """Return the sources for a command on a table; the first source with a value applies.

        Raises:
            UsageError: a file cannot be understood.
        """
        first, files = (
            [replace(file, command=command, table=table) for file in found]
            for found in (self._first, self._files)
        )
        return (*first, EnvironmentSource(self._environ), *files)

    @property
    def paths(self) -> list[Path]:
        """Return the files that apply.

        Raises:
            UsageError: a file cannot be understood.
        """
        return [file.path for file in (*self._first, *self._files)]

    @property
    def catalogs(self) -> dict[str, tuple[str, str]]:
        """Return file and value of each setting in a section of a catalog."""
        return {
            f"{_CATALOG}.{name}.{key}": (str(file.path), _as_text(value))
            for file in (*reversed(self._files), *reversed(self._first))
            for name, section in file.content.get(_CATALOG, {}).items()
            for key, value in section.items()
        }

    def find_idle_profiles(self, tables: Collection[str]) -> list[str]:
        """Return file and section of each profile that matches none of the tables."""
        return [
            f"{file.path}: [{_PROFILES}.{name}]"
            for file in (*self._first, *self._files)
            for name in file.content.get(_PROFILES, {})
            if not any(file.has_in_profile(name, table) for table in tables)
        ]

    def check(
        self, command: str, settings: Collection[str], every: Callable[[], Collection[str]]
    ) -> None:
        """Check each file; see ``ConfigSource.check``."""
        for file in (*self._first, *self._files):
            file.check(command, settings, every)

    def ignore_wrong_files(
        self, command: str, settings: Collection[str], every: Callable[[], Collection[str]]
    ) -> UsageError | None:
        """Check each file; if one is wrong, ignore all, and return the error."""
        try:
            self.check(command, settings, every)
        except UsageError as error:
            self._first, self._files = [], []
            return error
        return None


def find_config_files(environ: Mapping[str, str], directory: Path) -> list[Path]:
    """Return the files that apply, the one with priority first.

    That is the one of ``DELTACTL_CONFIG``, else the nearest in ``directory`` and its parents, and
    the user's in ``XDG_CONFIG_HOME`` (by default ``~/.config``).

    Raises:
        UsageError: whether a file exists cannot be known, or it is not a regular one. It can keep
            files from a vacuum.
    """
    named = environ.get(_VARIABLE)
    if named:
        return [Path(named)]
    places = (place / FILE_NAME for place in (directory, *directory.parents))
    found = [*islice(filter(_is_file, places), 1)]
    users = _place_of_user(environ)
    if users is not None and users not in found and _is_file(users):
        found.append(users)
    return found


def _place_of_user(environ: Mapping[str, str]) -> Path | None:
    """Return where the user's file would be; ``None`` without a home directory."""
    config = environ.get("XDG_CONFIG_HOME")
    try:
        home = Path(config) if config else Path(environ.get("HOME") or "~").expanduser() / ".config"
    except RuntimeError:  # the user id of a container may have no account
        return None
    return home / "deltactl" / FILE_NAME


def _is_file(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        # Of the file, or of a directory above it: a link to a disk that is not mounted.
        last = next(it for it in (path, *path.parents) if os.path.lexists(it))
        if last.exists():
            return False
        why = f"cannot know whether this file exists: the symbolic link {last} leads to no file"
    except OSError as error:
        why = f"cannot know whether this file exists: {error.strerror}"
    else:
        if stat.S_ISREG(mode) or path.samefile(os.devnull):
            return True
        why = "not a regular file"
    raise UsageError(
        f"{path}: {why}",
        hint=f"Check the path and its permissions, start in another directory, or set {_VARIABLE} "
        "to the file to use (/dev/null: to none). The file could keep files from a vacuum.",
    )


def load_config_file(
    path: Path, commands: Collection[str], *, hint: str | None = None
) -> ConfigSource:
    """Read a file and check its sections; ``commands`` are the names of some of them.

    ``hint`` says what to do if it cannot be read.

    Raises:
        UsageError: it cannot be read or parsed, or a section is none.
    """
    import tomllib

    try:
        content = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", hint=hint) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not valid TOML: {error}", hint=_HINT_TO_WRITE) from error
    catalogs, profiles = content.get(_CATALOG, {}), content.get(_PROFILES, {})
    _ensure_sections(path, "", content, {*commands, _PROFILES, _CATALOG})
    _ensure_sections(path, _CATALOG, catalogs, catalogs)
    for name, profile in profiles.items():
        place = _join(_PROFILES, name)
        if not isinstance(profile, dict) or not _is_texts(profile.get(_TABLES)):
            raise UsageError(
                f"{path}: section [{place}] has no list of table patterns",
                hint='Add tables = ["/data/events*"] to the section.',
            )
        _ensure_sections(path, place, profile, commands)
    return ConfigSource(path, content, frozenset(commands))


def _ensure_sections(
    path: Path, place: str, content: Mapping[str, Any], sections: Collection[str]
) -> None:
    for key in content.keys() & set(sections):
        if not isinstance(content[key], dict):
            at = _join(place, key)
            raise UsageError(f"{path}: {at} is a section, not a setting", hint=f"Write [{at}].")


def _keys_of(section: str) -> set[str]:
    """Return the keys of a section that is not of a command; empty for the others."""
    if section == SECTION:
        return {it.name.replace("_", "-") for it in fields(CommitOptions)}
    if section == _CATALOG:
        from deltactl.catalog.kinds import KINDS

        return {setting.key for kind in KINDS.values() for setting in kind.settings}
    return set()


def _join(*names: str) -> str:
    return ".".join(filter(None, names))


def _no_setting(path: Path, at: str, key: str, known: Collection[str], command: str) -> UsageError:
    if command == "maintain":
        from deltactl.operations.maintain.policy import OLD_KEYS

        if key in OLD_KEYS:
            return UsageError(f"{path}: there is no setting {at!r} any more", hint=OLD_KEYS[key])
    return UsageError(
        with_suggestion(f"{path}: there is no setting {at!r}", key, known),
        hint="Run `deltactl config` to list the settings. Options that may delete data cannot be "
        "set in a file.",
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, list) else str(value)
