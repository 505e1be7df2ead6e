"""Options of ``generate-manifest``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from deltactl.errors import UsageError
from deltactl.option_names import option

MODE: Final = "symlink_format_manifest"
Engine = Literal["athena", "trino", "hive", "redshift"]

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*")


@dataclass(frozen=True, slots=True)
class ManifestOptions:
    """Parsed options of ``generate-manifest``.

    ``version`` ``None`` is the latest. ``since``: only partitions changed by a later version.
    ``schemes`` replaces schemes of the URIs in manifests. ``check``: compare, write nothing.
    ``purge_first``: first rewrite files with deleted rows, in a separate commit.
    """

    mode: str = MODE
    version: int | None = None
    where: str | None = None
    since: int | None = None
    schemes: Mapping[str, str] = field(default_factory=dict)
    check: bool = False
    purge_first: bool = False
    ddl: Engine | None = None

    def __post_init__(self) -> None:
        """Refuse invalid or contradictory options.

        Raises:
            UsageError: naming the option.
        """
        if self.mode.lower() != MODE:
            raise UsageError(
                f"{option('mode')} {self.mode!r} is not supported",
                hint=f"Use {option('mode', MODE)}.",
            )
        for name, number in ((option("version"), self.version), (option("since"), self.since)):
            if number is not None and number < 0:
                raise UsageError(f"{name} must not be negative")
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
