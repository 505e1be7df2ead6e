"""``deltactl config``: all settings and their sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, NamedTuple

from deltactl.cli.group import LazyGroup, find_group
from deltactl.cli.options.common import argument
from deltactl.cli.options.declared import Declared
from deltactl.cli.output.sections import Column, Kind, Section, Table, Tone
from deltactl.cli.session import Session
from deltactl.cli.settings.sources import Origin, Source, find_setting
from deltactl.errors import NotATableError, UsageError
from deltactl.option_fields import selection_option
from deltactl.protocol.properties import TableProperties
from deltactl.storage.names import parse_scheme
from deltactl.suggest import find_nearest, with_suggestion

_ADDRESSES: Final = ("host", "uris", "endpoint-url")
_USER: Final = re.compile(r"(^|//|,)[^/,@]*@")


@dataclass(frozen=True, slots=True)
class ConfigFlags:
    """Options that only the command line has."""

    of_command: str | None = selection_option(
        None,
        "Show only the settings of this command",
        flag="command",
        metavar="NAME",
        is_basic=True,
    )


def command(
    session: Session,
    table: Annotated[
        str | None,
        argument(
            "TABLE|COMMAND",
            "Show the settings that apply to this table, including its profile in deltactl.toml "
            "and its table properties; or those of a command",
        ),
    ],
    flags: ConfigFlags,
) -> None:
    """Show every setting: its value, and where the value comes from. Wrong values are errors.

    Each setting can have several sources, and deltactl uses the first one that has a value. The
    order is: option, DELTACTL_ variable, nearest deltactl.toml, deltactl.toml in XDG_CONFIG_HOME,
    table property, default.

    \b
    Examples:
      deltactl config
      deltactl config optimize
      deltactl config /data/events --command optimize
    """  # noqa: D301 - the backspace is what keeps the lines below it apart
    group = find_group(session.ctx)
    names = [it.name for it in group.specs.values() if not it.is_hidden]
    chosen = flags.of_command
    if table in names and chosen is None:
        chosen, table = table, None
    if chosen is not None and chosen not in names:
        text = with_suggestion(f"there is no command {chosen!r}", chosen, names)
        raise UsageError(text, hint="See `deltactl --help`.")
    wrong = session.wrong_settings
    for name in names:
        settings = group.load(name).settings
        found = session.settings.ignore_wrong_files(name, settings, group.list_settings)
        wrong = wrong or found
    try:
        listing = _Listing(session, group, table)
    except NotATableError as error:
        if table is None or (near := find_nearest(table, names)) is None:
            raise
        message = f"there is no command or table {table!r}. Did you mean {near!r}?"
        raise UsageError(message, hint="See `deltactl --help`.") from error
    rows = [row for name in names for row in listing.of_command(name) if chosen in (None, name)]
    if chosen is None:
        of_catalogs, errors = _list_catalogs(session, table)
        rows += of_catalogs
        wrong = wrong or next(iter(errors), None)
    session.present(lambda: _describe(rows), error=wrong)


class Row(NamedTuple):
    """A setting; ``place`` is the option, the variable, the key or the property that has it."""

    command: str
    setting: str
    value: str | None
    origin: Origin = Origin.DEFAULT
    place: str = ""


class _Listing:
    """The settings of commands for a table."""

    def __init__(self, session: Session, group: LazyGroup, table: str | None) -> None:
        self._session, self._group, self._table = session, group, table
        found = (
            {}
            if table is None
            else session.open_log(table, published_only=True).snapshot().metadata.configuration
        )
        self._properties = TableProperties(found, session.output.warn)

    def of_command(self, name: str) -> list[Row]:
        """Return a row for each setting of a command, with its origin.

        Raises:
            UsageError: a file of settings cannot be understood, or a value is not valid.
        """
        command = self._group.load(name)
        sources = self._session.settings.sources_for(name, self._table)
        options = (it for it in command.declared.values() if it.option.is_settable)
        return [self._find(name, option, sources) for option in options]

    def _find(self, command: str, option: Declared, sources: Sequence[Source]) -> Row:
        if (found := find_setting(sources, option.name)) is not None:
            option.parse(found)
            text = found.text
            if option.name == "spark-remote" and ";" in text:
                text = text.partition(";")[0] + ";..."  # without the token
            return Row(command, option.name, text, found.origin, found.place)
        key = option.option.table_property
        if key is not None and (value := self._properties.option_text(key)) is not None:
            return Row(command, option.name, value, Origin.PROPERTY, key)
        return Row(command, option.name, "false" if option.is_flag else option.default or None)


def _list_catalogs(session: Session, table: str | None) -> tuple[list[Row], list[UsageError]]:
    """Return a row for each setting of the kinds of catalogs, and what is wrong with them.

    Raises:
        UsageError: the name is not valid.
    """
    from deltactl.catalog.kinds import KINDS
    from deltactl.catalog.names import TableName, parse_name
    from deltactl.catalog.settings import find_settings

    rows: list[Row] = []
    errors: list[UsageError] = []
    for scheme, kind in KINDS.items():
        is_this = table is not None and parse_scheme(table) == scheme
        name = parse_name(table or "") if is_this else TableName(scheme, "", (scheme,))
        wrong: dict[str, UsageError] = {}
        found = find_settings(name, session.catalog_options, session.environ, wrong.__setitem__)
        errors += wrong.values()
        for setting in kind.settings:
            row = Row(f"catalog.{scheme}", setting.key, None)
            if (hit := found.get(setting.key)) is not None:
                file = session.settings.catalogs.get(hit.place, (None, ""))[0]
                origin = Origin.ENVIRONMENT if hit.place in session.environ else Origin.FILE
                row = row._replace(
                    value="***" if setting.is_secret else _mask(setting.key, hit.value),
                    origin=Origin.FLAG if hit.place.startswith("option ") else origin,
                    place=hit.place if file is None else f"{file}: {hit.place}",
                )
            if setting.key in wrong:
                row = row._replace(value=f"error: {wrong[setting.key].message}")
            rows.append(row)
    return rows, errors


def _mask(key: str, value: str) -> str:
    """Return the value of a setting; addresses without the user and the password."""
    return _USER.sub(r"\1...@", value) if key in _ADDRESSES else value


def _describe(rows: Sequence[Row]) -> Iterator[Section]:
    places: dict[str, int] = {}  # and their numbers
    columns = [
        Column("command"),
        Column("setting", tone=Tone.STRONG),
        Column("value", Kind.TEXT),
        Column("origin"),
        Column("where", Kind.PATH),
    ]
    # Those that were changed come first.
    ordered = sorted(rows, key=lambda row: row.origin is Origin.DEFAULT)
    table = [
        (
            row.command,
            row.setting,
            "-" if row.value is None else row.value,
            (Tone.FAINT if row.origin is Origin.DEFAULT else Tone.GOOD)(row.origin),
            _where(row, places),
        )
        for row in ordered
    ]
    yield Section(table=Table(columns, table, most=None))
    if places:
        yield Section(code="\n".join(f"[{number}] {it}" for it, number in places.items()))


def _where(row: Row, places: dict[str, int]) -> str:
    """Return the name, or the number of the file's section, because its path is too long."""
    if row.origin is not Origin.FILE:
        return row.place
    # The nearest file has a short name here.
    path, _, key = row.place.removeprefix(f"{Path.cwd()}/").rpartition(": ")
    section = key.rpartition(".")[0]
    place = f"{path}: [{section}]" if section else path
    return f"[{places.setdefault(place, len(places) + 1)}]"
