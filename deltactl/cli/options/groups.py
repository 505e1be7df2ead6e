"""Groups of options in help. An option has the same meaning, so the same group, everywhere."""

from __future__ import annotations

from typing import Final

from deltactl.option_fields import Group

_NAMES: Final = {
    Group.SELECTION: (
        "all all-versions also-keep-for at blame checkpoints deep diff dvs files follow "
        "full if-needed path proofs shallow timestamp "
        "include-unknown inventory keep-last keep-version limit "
        "max-bytes max-deleted-rows-ratio max-files min-file-size min-input-files mode name "
        "only operation partition-by policy property purge retain sample since since-version "
        "skip-hot sync to-timestamp to-version undo until version version-range where"
    ),
    Group.LAYOUT: "cluster-by layout min-cluster-size spill-dir zorder-by",
    Group.SAFETY: (
        "allow-protocol-downgrade check dry-run force-retention forget-clone ignore-manifests "
        "ignore-missing max-orphan-fraction no-journal no-note "
        "purge-quarantine quarantine quarantine-for verify yes"
    ),
    Group.OUTPUT: (
        "ddl debug dump-listing help metrics install-completion no-color output quiet "
        "restorable show-completion verbose"
    ),
}
_GROUPS: Final = {name: group for group, names in _NAMES.items() for name in names.split()}


def group_of(option: str) -> Group:
    """Return the group of an option, named without its dashes; by default Execution."""
    return _GROUPS.get(option, Group.EXECUTION)
