"""Passwords and signatures are found in addresses; ports, users and patterns are none."""

import pytest

from deltactl.errors import DeltactlError, find_secret, mask_address


@pytest.mark.parametrize(
    ("address", "shown", "secret"),
    [
        ("s3://key:hush@b/t", "s3://key:...@b/t", "password"),
        ("s3://key:hu/sh@b/t", "s3://key:...@b/t", "password"),
        ("https://u:hu@sh@h:443/t", "https://u:...@h:443/t", "password"),
        ("https://u@corp.com:1234@h/t", "https://u@corp.com:...@h/t", "password"),
        ("gs://b/t?X-Goog-Signature=hush", "gs://b/t?...", "signature"),
        ("abfss://c@a/t*?sv=1&sig=hush", "abfss://c@a/t*?...", "signature"),
        ("https://a/t?sv=1&amp;sig=hush", "https://a/t?...", "signature"),
        (r"https://a/t?sv=1\u0026sig=hush", "https://a/t?...", "signature"),
        ("s3://b/my table?sig=hush", "s3://b/my table?...", "signature"),
        pytest.param(f"s3://b/t?{'x=1&' * 999}sig=hush", "s3://b/t?...", "signature", id="long"),
    ],
)
def test_secrets(address: str, shown: str, secret: str) -> None:
    assert (mask_address(address), find_secret(address)) == (shown, secret)
    error = DeltactlError(f"cannot open {address!r}: no", hint=f"Check {address}")
    assert error.message == str(error) == f"cannot open {shown!r}: no"
    assert error.hint == f"Check {shown}"


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://host:8020/user/me@corp",
        "hdfs://[::1]:8020/me@corp",
        "abfss://container@account.dfs.core.windows.net/t",
        "sftp://me@host:22/me@corp",
        "s3://lake/part-?/t",
        "s3://lake/part-?/partition_key=1",
        "file:///x:y@z",
        "/data/a:/b:c@d",
        "s3://arn:aws:s3:eu-west-1:1:accesspoint/ap/t@1",
        "no connection to thrift://host:9083: ask me@corp",
        "cannot read s3://bucket: ask me@corp",
        "/data/x:y@z",
    ],
)
def test_no_secrets(text: str) -> None:
    assert (mask_address(text), find_secret(text)) == (text, None)
