"""Addresses of Hive metastores that are not valid."""

import pytest

from deltactl.catalog.hive import connect
from deltactl.errors import UsageError


@pytest.mark.parametrize(
    "uris",
    ["thrift://secret@h", "thrift://u:secret@h:9083", "h:99999", "h:²", "h:-1", "thrift://", "a/b"],
)
def test_what_is_no_address_of_a_metastore_is_refused(uris: str) -> None:
    with pytest.raises(UsageError, match="not the address of a Hive metastore") as raised:
        connect("", {"uris": uris})
    assert "secret" not in raised.value.message
