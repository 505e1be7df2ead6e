"""`check` on tables that other writers made: sound ones have no findings, broken ones do."""

from typing import Any

import pytest

from deltactl import CheckOptions, Depth, NotATableError, Table, UnsupportedFeatureError
from deltactl.table import TableWarning
from tests.conftest import CORPUS
from tests.test_corpus import _ENTRIES

pytestmark = pytest.mark.corpus

_OPTIONS = CheckOptions(depth=Depth.DATA)
_MANAGED = ("delta__basic_catalog_managed", "delta__catalog-owned-preview")


@pytest.mark.parametrize("name", _ENTRIES or ["-"])
def test_what_is_found_agrees_with_what_readers_can_read(name: str) -> None:
    entry: dict[str, Any] = _ENTRIES[name]
    expect, table = entry["expect"], Table(str(CORPUS / entry["path"]))
    if "no-delta-log" in name:
        with pytest.raises(NotATableError):
            table.check(_OPTIONS)
        return
    if name in _MANAGED:
        with pytest.raises(UnsupportedFeatureError, match="without its catalog"):
            table.check(_OPTIONS)
        with pytest.warns(TableWarning, match="may know newer ones"):
            report = table.check(_OPTIONS, published_only=True)
        assert report.version == expect["version"]
        assert report.counts.num_files == expect["num_files"]
        return
    report = table.check(_OPTIONS)
    if expect["outcome"] == "ok":
        assert report.findings.to_pylist() == []
        assert report.unsupported is None
        assert report.counts.num_files == expect["num_files"]
    elif not expect.get("may_open"):
        assert not report.is_sound or report.unsupported is not None
