"""Secrets that stay off the command line, and the rate of requests."""

from pathlib import Path

import pytest

from deltactl.cli.options.common import exposed_secrets, resolve_references
from deltactl.errors import UsageError
from deltactl.storage.network.pacing import Pacer
from deltactl.storage.objects import connect
from deltactl.storage.open import open_store
from deltactl.storage.secrets import secret_values
from tests.cli.conftest import RunCli


def test_options_refer_to_variables() -> None:
    options = {"key": "k", "secret": "env:LAKE", "endpoint_url": "http://h"}
    assert resolve_references(options, {"LAKE": "s3cr3t"}) == {**options, "secret": "s3cr3t"}
    with pytest.raises(UsageError, match="LAKE") as caught:
        resolve_references(options, {})
    assert caught.value.hint == "Set the variable, or name one that is set."


def test_secrets_that_were_typed_are_named() -> None:
    typed = {"secret": "s3cr3t", "token": "anon", "endpoint_url": "http://h", "sas_token": "env:X"}
    assert exposed_secrets(typed) == ["secret"]
    assert exposed_secrets({"client_kwargs": '{"aws_secret_access_key": "x1y2"}'}) == [
        "client_kwargs"
    ]


def test_a_typed_secret_is_warned_about_and_not_repeated(cli: RunCli, tmp_path: Path) -> None:
    ran = cli("describe-detail", str(tmp_path), "--storage-option", "secret=pl4nted")
    assert "process list" in ran.err
    assert "pl4nted" not in ran.out + ran.err


def test_secrets_are_found_wherever_they_are() -> None:
    class FileSystem:
        def __init__(self) -> None:
            self.account_key = "from-environment"
            self.client_kwargs = {"aws_session_token": "t0ken"}
            self.endpoint_url = "http://h"

    options = {
        "connection_string": "AccountName=a;AccountKey=azur3==;EndpointSuffix=x",
        "config_kwargs": '{"proxy": {"password": "pr0xy"}, "user": "u"}',
        "token": "anon",
    }
    found = secret_values(options, FileSystem())
    assert {"azur3==", "pr0xy", "from-environment", "t0ken"} <= set(found)
    assert not {"anon", "u", "http://h", "a"} & set(found)


def test_the_rate_reaches_the_pacer(
    cli: RunCli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limits: list[float | None] = []

    class NotedPacer(Pacer):
        def __init__(self, limit: float | None) -> None:
            super().__init__(limit)
            limits.append(limit)

    monkeypatch.setattr(connect, "Pacer", NotedPacer)
    open_store("s3://rate-of-library/t", {"anon": "true", "max_requests_per_second": "7.5"})
    with pytest.raises(UsageError, match="requests per second"):
        open_store("s3://rate-of-library/t", {"max_requests_per_second": "fast"})
    assert limits == [7.5]
    assert cli("describe-detail", str(tmp_path), "--max-requests-per-second", "0").code == 2
    monkeypatch.setenv("DELTACTL_MAX_REQUESTS_PER_SECOND", "never")
    assert cli("describe-detail", str(tmp_path)).code == 2
