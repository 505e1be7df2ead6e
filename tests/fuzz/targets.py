"""All targets by name."""

from tests.fuzz import log_targets, option_targets, value_targets
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (*log_targets.TARGETS, *value_targets.TARGETS, *option_targets.TARGETS)
}
