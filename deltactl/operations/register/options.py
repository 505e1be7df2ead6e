"""Options of ``register``."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.option_fields import safety_option, selection_option


@dataclass(frozen=True, slots=True)
class RegisterOptions:
    """Options of ``register``."""

    manifest: bool = selection_option(
        False,
        "Register the manifests of generate-manifest, with a partition for each directory, instead "
        "of the Delta table",
        is_basic=True,
    )
    sync: bool = selection_option(
        False,
        "If the table is registered, bring its columns, comments and partitions up to date",
        is_basic=True,
    )
    replace: bool = safety_option(
        False,
        "If a table of this name is registered, replace what the catalog says of it: location, "
        "format, properties",
        is_basic=True,
    )
    check: bool = safety_option(
        False,
        "Change nothing, and exit with status 3 if the table is not registered, or differs",
        is_basic=True,
    )
