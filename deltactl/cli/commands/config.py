"""``deltactl config``: all settings and their sources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperOption

from deltactl.cli.command_table import COMMANDS
from deltactl.cli.group import LazyGroup, find_group, load_command
from deltactl.cli.help import OptionDoc
from deltactl.cli.options.params import convert_setting, settable_name
from deltactl.cli.output.page import Column, Page, Styled, Tone
from deltactl.cli.reference.program import ProgramDoc, describe_program
from deltactl.cli.session import Session
from deltactl.cli.settings.file import policy_keys
from deltactl.cli.settings.settable import SETTABLE
from deltactl.cli.settings.sources import Origin, ensure_known_variables
from deltactl.errors import UsageError
from deltactl.operations.maintain.policy import PolicyKey
from deltactl.suggest import with_suggestion

Row = dict[str, Any]

_DEFAULT: Final = re.compile(r"\[default: (.*?)(?:; .*)?\](?: |$)")
_WRITTEN: Final = frozenset({Origin.ENVIRONMENT.value, Origin.FILE.value})
_PROPERTIES: Final = {
    "codec": "delta.parquet.compression.codec",
    "kind": "delta.checkpointPolicy",
    "retain": "delta.deletedFileRetentionDuration",
    "target-size": "delta.targetFileSize",
}
"""Table properties that apply if no option, variable or file sets the value."""


def command(
    ctx: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE|COMMAND",
            help="Show the settings that apply to this table, including its profile in "
            "deltactl.toml and its table properties; or those of a command",
            show_default=False,
        ),
    ] = None,
    for_command: Annotated[
        str | None,
        typer.Option("--command", metavar="NAME", help="Show only the settings of this command"),
    ] = None,
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
    session = Session.of(ctx)
    names = [spec.name for spec in COMMANDS if not spec.is_hidden]
    if for_command is None and table in names:
        for_command, table = table, None
    ensure_known_variables(session.environ)
    if for_command is not None and for_command not in names:
        raise UsageError(
            with_suggestion(f"there is no command {for_command!r}", for_command, names),
            hint="See `deltactl --help`.",
        )
    properties = {} if table is None else _load_properties(session, table)
    group = find_group(ctx)
    rows = list_settings(session, describe_program(group), table, properties)
    for row in rows:
        if row["origin"] in _WRITTEN:
            _ensure_valid(ctx, group, session, row, table)
    rows += _list_catalogs(session, table)
    rows = [row for row in rows if for_command in (None, row["command"])]
    session.present(lambda page: _render(page, rows), rows=rows, result=rows)


def list_settings(
    session: Session, program: ProgramDoc, table: str | None, properties: Mapping[str, str]
) -> list[Row]:
    """Return a row for each setting of each command, with its origin.

    Raises:
        UsageError: a file of settings cannot be understood.
    """
    rows = []
    for _, doc in program.commands:
        settings = [option for option in doc.options if option.name in SETTABLE]
        session.check_settings(doc.name, [option.name for option in settings])
        rows += [_resolve(session, doc.name, it, table, properties) for it in settings]
        rows += [
            _resolve_policy(session, doc.name, key, about, table)
            for key, about in policy_keys(doc.name).items()
        ]
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


def _ensure_valid(
    ctx: Any, group: LazyGroup, session: Session, row: Row, table: str | None
) -> None:
    """Refuse a value that the command could not use.

    Raises:
        UsageError: the message has the variable, or the file and the key.
    """
    command = load_command(group.specs[row["command"]])
    param = next((it for it in command.params if settable_name(it) == row["setting"]), None)
    if not isinstance(
        param, TyperOption
    ):  # of the policy of maintain, which is checked when the file is read
        return
    for source in session.sources_for(row["command"], table):
        if (found := source.find(row["setting"])) is not None:
            convert_setting(ctx, param, *found)
            return


def _load_properties(session: Session, table: str) -> Mapping[str, str]:

    snapshot = session.open_log(table).snapshot()
    return snapshot.metadata.configuration


def _resolve(
    session: Session,
    command_name: str,
    option: OptionDoc,
    table: str | None,
    properties: Mapping[str, str],
) -> Row:
    from deltactl.protocol.properties import TableProperties

    def row(value: str | None, origin: Origin, name: str | None) -> Row:
        shown = None if value is None else _without_secret(option.name, value)
        return {
            "command": command_name,
            "setting": option.name,
            "value": shown,
            "origin": origin.value,
            "name": name,
        }

    for source in session.sources_for(command_name, table):
        if (found := source.find(option.name)) is not None:
            return row(found[1], source.origin, found[0])
    key = _PROPERTIES.get(option.name)
    if key is not None and (value := TableProperties(properties).text(key)) is not None:
        return row(value, Origin.PROPERTY, key)
    found_default = _DEFAULT.search(option.help)
    default = found_default.group(1) if found_default else None
    return row(default if option.value else "false", Origin.DEFAULT, None)


def _resolve_policy(
    session: Session, command_name: str, key: str, about: PolicyKey, table: str | None
) -> Row:
    """Return the row of a key that is no option."""
    row: Row = {"command": command_name, "setting": key}
    for source in session.sources_for(command_name, table):
        if (found := source.find(key)) is not None:
            name, text = found
            return row | {"value": text, "origin": source.origin.value, "name": name}
    return row | {"value": about.default or None, "origin": Origin.DEFAULT.value, "name": None}


def _without_secret(name: str, value: str) -> str:
    """Return a value without a token: Spark Connect addresses have it after the first semicolon."""
    return value.partition(";")[0] + ";..." if name == "spark-remote" and ";" in value else value


def _render(page: Page, rows: Sequence[Row]) -> None:
    places: dict[str, int] = {}  # and their numbers
    columns = [
        Column("command"),
        Column("setting"),
        Column("value", elastic=True),
        Column("origin"),
        Column("where", elastic=True, is_path=True),
    ]
    # Those that were changed come first.
    ordered = sorted(rows, key=lambda row: row["origin"] == Origin.DEFAULT)
    page.table(
        columns,
        [
            (
                row["command"],
                Styled(row["setting"], Tone.STRONG),
                "-" if row["value"] is None else row["value"],
                Styled(row["origin"], Tone.FAINT if row["origin"] == "default" else Tone.GOOD),
                _where(row, places),
            )
            for row in ordered
        ],
    )
    if places:
        page.line()
    for place, number in places.items():
        page.line(f"[{number}] {place}")


def _where(row: Row, places: dict[str, int]) -> str:
    """Return the name, or the number of the file's section, because its path is too long."""
    if row["origin"] != Origin.FILE:
        return row["name"] or ""
    # The nearest file has a short name here; programs get the full path.
    path, _, key = str(row["name"]).removeprefix(f"{Path.cwd()}/").rpartition(": ")
    section = key.rpartition(".")[0]
    place = f"{path}: [{section}]" if section else path
    return f"[{places.setdefault(place, len(places) + 1)}]"
