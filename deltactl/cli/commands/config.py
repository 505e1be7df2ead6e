"""``deltactl config``: all settings and their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from deltactl.cli.group import LazyGroup, find_group, load_command
from deltactl.cli.options.common import argument
from deltactl.cli.options.declared import Declared
from deltactl.cli.output.sections import Column, Kind, Section, Styled, Table, Tone
from deltactl.cli.session import Session
from deltactl.cli.settings.file import policy_keys
from deltactl.cli.settings.sources import Origin, Source, ensure_known_variables, find_setting
from deltactl.errors import UsageError
from deltactl.option_fields import selection_option
from deltactl.protocol.properties import TableProperties
from deltactl.storage.names import parse_scheme
from deltactl.suggest import with_suggestion

Row = dict[str, Any]


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
    if chosen is None and table in names:
        chosen, table = table, None
    ensure_known_variables(session.environ, group.list_settings())
    if chosen is not None and chosen not in names:
        raise UsageError(
            with_suggestion(f"there is no command {chosen!r}", chosen, names),
            hint="See `deltactl --help`.",
        )
    properties = {} if table is None else _load_properties(session, table)
    rows = [
        row
        for name in names
        for row in _list_settings(session, group, name, table, properties)
        if chosen in (None, name)
    ]
    if chosen is None:
        rows += _list_catalogs(session, table)
    session.present(lambda: _describe(rows), rows=rows, result=rows)


def _list_settings(
    session: Session, group: LazyGroup, name: str, table: str | None, properties: Mapping[str, str]
) -> list[Row]:
    """Return a row for each setting of a command, with its origin.

    Raises:
        UsageError: a file of settings cannot be understood, or the command could not use a value.
    """
    command = load_command(group.specs[name])
    session.check_settings(name, command.settings, group.list_settings)
    sources = session.sources_for(name, table)
    ctx = command.make_context(name, [], resilient_parsing=True)
    rows = []
    for option in command.declared.values():
        if option.option.is_settable:
            value, origin, place = _resolve(option, ctx, sources, properties)
            rows.append(_row(name, option.name, value, origin, place))
    for key, about in policy_keys(name).items():
        value, origin, place = about.default or None, Origin.DEFAULT, None
        if (found := find_setting(sources, key)) is not None:
            value, origin, place = found.text, found.origin, found.place
        rows.append(_row(name, key, value, origin, place))
    return rows


def _list_catalogs(session: Session, table: str | None) -> list[Row]:
    """Return a row for each setting of the kinds of catalogs, in their sections of the file.

    Raises:
        UsageError: a setting refers to a variable that is not set, or the name is not valid.
    """
    from deltactl.catalog.kinds import KINDS
    from deltactl.catalog.names import TableName, parse_name
    from deltactl.catalog.settings import find_settings

    rows: list[Row] = []
    for scheme, kind in KINDS.items():
        is_this = table is not None and parse_scheme(table) == scheme
        name = parse_name(table or "") if is_this else TableName(scheme, "", (scheme,))
        found = find_settings(name, session.catalog_options, session.environ)
        for setting in kind.settings:
            row: Row = {"command": f"catalog.{scheme}", "setting": setting.key}
            hit = found.get(setting.key)
            if hit is None:
                rows.append(row | {"value": None, "origin": Origin.DEFAULT.value, "name": None})
                continue
            file = session.catalog_settings.get(hit.place, (None, ""))[0]
            origin = Origin.ENVIRONMENT if hit.place in session.environ else Origin.FILE
            origin = Origin.FLAG if hit.place.startswith("option ") else origin
            shown = {
                "value": "***" if setting.is_secret else hit.value,
                "origin": origin.value,
                "name": hit.place if file is None else f"{file}: {hit.place}",
            }
            rows.append(row | shown)
    return rows


def _row(command: str, name: str, value: str | None, origin: Origin, place: str | None) -> Row:
    if name == "spark-remote" and value is not None and ";" in value:
        value = value.partition(";")[0] + ";..."  # without the token
    return {
        "command": command,
        "setting": name,
        "value": value,
        "origin": origin.value,
        "name": place,
    }


def _resolve(
    option: Declared, ctx: Any, sources: Sequence[Source], properties: Mapping[str, str]
) -> tuple[str | None, Origin, str | None]:
    """Return the value, its origin, and the variable, the key or the property that has it."""
    if (found := find_setting(sources, option.name)) is not None:
        option.parse(ctx, found)
        return found.text, found.origin, found.place
    key = option.option.table_property
    if key is not None and (value := TableProperties(properties).text(key)) is not None:
        return value, Origin.PROPERTY, key
    return "false" if option.is_flag else option.default or None, Origin.DEFAULT, None


def _load_properties(session: Session, table: str) -> Mapping[str, str]:
    snapshot = session.open_log(table).snapshot()
    return snapshot.metadata.configuration


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
    ordered = sorted(rows, key=lambda row: row["origin"] == Origin.DEFAULT)
    table = [
        (
            row["command"],
            row["setting"],
            "-" if row["value"] is None else row["value"],
            Styled(row["origin"], Tone.FAINT if row["origin"] == "default" else Tone.GOOD),
            _where(row, places),
        )
        for row in ordered
    ]
    yield Section(table=Table(columns, table, most=None))
    if places:
        yield Section(code="\n".join(f"[{number}] {it}" for it, number in places.items()))


def _where(row: Row, places: dict[str, int]) -> str:
    """Return the name, or the number of the file's section, because its path is too long."""
    if row["origin"] != Origin.FILE:
        return row["name"] or ""
    # The nearest file has a short name here; programs get the full path.
    path, _, key = str(row["name"]).removeprefix(f"{Path.cwd()}/").rpartition(": ")
    section = key.rpartition(".")[0]
    place = f"{path}: [{section}]" if section else path
    return f"[{places.setdefault(place, len(places) + 1)}]"
