"""Small tables have enough work, as large ones have."""

import pytest

from deltactl.operations.maintain import candidates, upkeep


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "_MIN_FILES_FEWER", 1)
    monkeypatch.setattr(candidates, "_MIN_UNCLUSTERED_BYTES", 1)
    monkeypatch.setattr(upkeep, "_MIN_LOG_FILES", 5)
