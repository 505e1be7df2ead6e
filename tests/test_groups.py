"""Tests of a group run on one worker, so that servers and Spark sessions start once."""

import pytest


@pytest.mark.xdist_group("groups")
def test_groups_reach_the_scheduler(request: pytest.FixtureRequest) -> None:
    """pytest-xdist reads the group from the node id; with pytest 9.2 it is not there."""
    if getattr(request.config.option, "loadgroup", False):  # set by pytest-xdist in its workers
        assert request.node.nodeid.endswith("@groups")
