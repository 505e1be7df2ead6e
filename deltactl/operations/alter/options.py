"""Options of ``alter``."""

from __future__ import annotations

from dataclasses import dataclass

from deltactl.errors import UsageError
from deltactl.option_fields import Pairs, ensure_declared, selection_option
from deltactl.option_names import option
from deltactl.protocol.actions import CONVERTED
from deltactl.protocol.features import CHECKPOINT_PROTECTION
from deltactl.protocol.property_rules import parse_properties


@dataclass(frozen=True, slots=True)
class AlterOptions:
    """Parsed options of ``alter``: at least one change."""

    properties: Pairs = selection_option(
        {},
        "Set this property of the table; may be repeated",
        flag="set",
        metavar="KEY=VALUE",
        is_repeated=True,
        is_basic=True,
    )
    unset: tuple[str, ...] = selection_option(
        (), "Remove this property; may be repeated", metavar="KEY", is_basic=True
    )
    add_feature: tuple[str, ...] = selection_option(
        (),
        "Add this table feature to the protocol, without its properties; may be repeated",
        metavar="NAME",
        is_basic=True,
    )

    drop_feature: str | None = selection_option(
        None,
        "Drop this table feature, after all that uses it was removed; may not be combined",
        metavar="NAME",
        is_basic=True,
    )
    truncate_history: bool = selection_option(
        False,
        "Before checkpointProtection is dropped, delete the history that it protects, if it is "
        "older than delta.dropFeatureTruncateHistory.retentionDuration (24 hours)",
    )

    def __post_init__(self) -> None:
        ensure_declared(self)
        changes = bool(self.properties or self.unset or self.add_feature)
        if self.drop_feature is not None and changes:
            raise UsageError(
                f"{option('drop_feature')} cannot be combined with other changes",
                hint="Run the command twice.",
            )
        if self.drop_feature is None and not changes:
            raise UsageError(
                "nothing to alter",
                hint=f"Give {option('properties')}, {option('unset')}, {option('add_feature')} or "
                f"{option('drop_feature')}.",
            )
        if self.truncate_history and self.drop_feature != CHECKPOINT_PROTECTION.name:
            name = CHECKPOINT_PROTECTION.name
            raise UsageError(
                f"{option('truncate_history')} is only for the feature {name}",
                hint=f"Drop the other feature without it, and a day later {name} with it.",
            )
        both = {key.lower() for key in parse_properties(self.properties)}
        for key in (*self.properties, *self.unset):
            if key == CONVERTED:
                raise UsageError(f"{key!r} is for deltactl only", hint="Omit it.")
        for key in self.unset:
            if key.lower() in both:
                raise UsageError(
                    f"{key!r} is in {option('properties')} and in {option('unset')}",
                    hint="Give it in one of them.",
                )
