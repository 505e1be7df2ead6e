"""Options of ``generate-manifest``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from deltactl.errors import UsageError

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
            raise UsageError(f"--mode {self.mode!r} is not supported", hint=f"Use --mode {MODE}.")
        for name, number in (("--version", self.version), ("--since", self.since)):
            if number is not None and number < 0:
                raise UsageError(f"{name} must not be negative")
        if self.purge_first and self.version is not None:
            raise UsageError(
                "--purge-first and --version cannot be combined",
                hint="Omit --version or --purge-first: the purge removes deletion vectors only in "
                "a new version, not in an older one.",
            )
        if self.since is not None and self.version is not None and self.since > self.version:
            raise UsageError("--since must not be after --version")
        for scheme in (*self.schemes, *self.schemes.values()):
            if not _SCHEME.fullmatch(scheme):
                raise UsageError(
                    f"--scheme-map: {scheme!r} is not the scheme of a URI",
                    hint="Write two schemes, such as --scheme-map s3a=s3.",
                )
