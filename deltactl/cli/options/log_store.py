"""Define options for commits through DynamoDB: ``--log-store``, ``--ddb-table-name``, ...

``cli/group.py`` adds them to each command with ``commits`` in the command table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final

import typer

from deltactl.cli.options.common import parse_choice
from deltactl.cli.options.declared import Options
from deltactl.cli.settings.sources import Source, resolve_setting
from deltactl.errors import UsageError
from deltactl.storage.log_store import DynamoDbLogStore

_DEFAULTS: Final = DynamoDbLogStore()


class LogStoreName(StrEnum):
    """Names of log stores. Without one, put-if-absent of the storage decides who commits first."""

    DYNAMODB = "dynamodb"


@dataclass(frozen=True, slots=True)
class LogStoreOptions(Options):
    """The log store options of the command line."""

    log_store: Annotated[
        LogStoreName | None,
        typer.Option(
            "--log-store",
            help="Commit on S3 through DynamoDB, as S3DynamoDBLogStore of Delta on Spark does. "
            "All writers of a table must use the same log store  [default: conditional PUT "
            "on S3]",
            show_default=False,
        ),
    ] = None
    ddb_table_name: Annotated[
        str | None,
        typer.Option(
            "--ddb-table-name",
            metavar="NAME",
            help="Name of the DynamoDB table for --log-store dynamodb  [default: "
            f"{_DEFAULTS.table_name}]",
            show_default=False,
        ),
    ] = None
    ddb_region: Annotated[
        str | None,
        typer.Option(
            "--ddb-region",
            metavar="REGION",
            help=f"AWS region of the DynamoDB table  [default: {_DEFAULTS.region}]",
            show_default=False,
        ),
    ] = None

    def resolve(self, sources: Sequence[Source]) -> DynamoDbLogStore | None:
        """Return the log store that the option, the environment or the settings request.

        ``None`` if they request none: then put-if-absent of the storage decides.

        Raises:
            UsageError: a log store that is not known, or its options without it.
        """
        name = resolve_setting(
            "log-store",
            self.log_store,
            parse=lambda text: parse_choice(text, LogStoreName, "a log store"),
            default=None,
            sources=sources,
        )
        if name.value is None:
            for flag, given in (
                ("--ddb-table-name", self.ddb_table_name),
                ("--ddb-region", self.ddb_region),
            ):
                if given is not None:
                    raise UsageError(
                        f"{flag} has no effect without --log-store dynamodb",
                        hint="Add --log-store dynamodb.",
                    )
            return None
        table = resolve_setting(
            "ddb-table-name",
            self.ddb_table_name,
            parse=str,
            default=_DEFAULTS.table_name,
            sources=sources,
        )
        region = resolve_setting(
            "ddb-region", self.ddb_region, parse=str, default=_DEFAULTS.region, sources=sources
        )
        return DynamoDbLogStore(table.value, region.value)
