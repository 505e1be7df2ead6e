"""Options of ``generate-manifest``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from deltactl.errors import UsageError
from deltactl.option_fields import (
    Pairs,
    ensure_declared,
    execution_option,
    output_option,
    safety_option,
    selection_option,
)
from deltactl.option_names import option

Engine = Literal["athena", "trino", "hive", "redshift"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """Parsed options of ``generate-manifest``."""

    version: int | None = selection_option(
        None,
        "Write the manifests of this version",
        default="the latest",
        least=0,
        is_for_one_table=True,
    )
    where: str | None = selection_option(
        None,
        "Write only the manifests of partitions that match this SQL condition, e.g. "
        "\"date >= '2024-01-01'\"",
        metavar="SQL",
        is_basic=True,
    )
    since: int | None = selection_option(
        None,
        "Write only the manifests of partitions that changed after version N",
        least=0,
        is_for_one_table=True,
    )
    schemes: Pairs = execution_option(
        {},
        "Replace the scheme of the file addresses in the manifests: s3a=s3 writes s3:// instead of "
        "s3a://. May be repeated",
        flag="scheme-map",
        metavar="FROM=TO",
        is_repeated=True,
    )
    purge_first: bool = execution_option(
        False,
        "First rewrite the files of these partitions that have deletion vectors, in a separate "
        "commit. Then write the manifests",
    )
    ddl: Engine | None = output_option(
        None,
        "Print the SQL statements that define the table in the catalog of this engine",
        is_basic=True,
    )
    check: bool = safety_option(
        False,
        "Change nothing, and exit with status 3 if the manifests do not match the table",
        is_basic=True,
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        if self.purge_first and self.version is not None:
            raise UsageError(
                f"{option('purge_first')} and {option('version')} cannot be combined",
                hint=f"Omit {option('version')} or {option('purge_first', True)}: the purge "
                "removes deletion vectors only in a new version, not in an older one.",
            )
        if self.since is not None and self.version is not None and self.since > self.version:
            raise UsageError(f"{option('since')} must not be after {option('version')}")
        for scheme in (*self.schemes, *self.schemes.values()):
            if not _SCHEME.fullmatch(scheme):
                raise UsageError(
                    f"{option('schemes')}: {scheme!r} is not the scheme of a URI",
                    hint=f"Write two schemes, such as {option('schemes')} s3a=s3.",
                )
