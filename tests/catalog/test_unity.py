import importlib.machinery
import logging
import pickle
import socket
import sys
import types
from collections.abc import Iterator

import pytest

from deltactl.catalog import http
from deltactl.catalog.names import parse_name
from deltactl.catalog.open import Located, list_tables, locate
from deltactl.catalog.unity_auth import choose_headers
from deltactl.errors import (
    AccessDeniedError,
    DeltactlError,
    NotATableError,
    SafetyError,
    StorageError,
    UnsupportedFeatureError,
    UsageError,
)
from deltactl.storage.vended import VendedOptions
from tests.support.unity_stub import TOKEN, UnityStub, seconds_from_now, unity_stub

NAME = "uc://main.sales.orders"


@pytest.fixture
def unity(monkeypatch: pytest.MonkeyPatch) -> Iterator[UnityStub]:
    monkeypatch.setattr("urllib3.Retry.sleep", lambda *_: None)
    with unity_stub() as stub:
        stub.add("main.sales.orders", "s3://lake/orders")
        yield stub


def settings(unity: UnityStub, **further: str) -> dict[str, str]:
    return {"databricks_host": unity.address, "databricks_token": TOKEN, **further}


def aws(operation: str) -> dict[str, object]:
    return {
        "aws_temp_credentials": {
            "access_key_id": f"AK-{operation}",
            "secret_access_key": "vended-secret",
            "session_token": "vended-session",
        },
        "expiration_time": str(seconds_from_now(3600)),
    }


def current(located: Located) -> dict[str, str]:
    assert isinstance(located.options, VendedOptions)
    return dict(located.options.current(located.uri))


def test_a_table_with_credentials_takes_three_requests(unity: UnityStub) -> None:
    unity.vend = aws
    located = locate(NAME, settings(unity, region="eu"), read_only=True)
    assert located.uri == "s3://lake/orders"
    assert dict(located.options) == {"region": "eu"}
    assert current(located) == {
        "key": "AK-READ",
        "secret": "vended-secret",
        "token": "vended-session",
    }
    entry = located.entry
    assert entry is not None
    assert (entry.owner, entry.table_type, entry.table_id) == (
        "alice", "EXTERNAL", "id-of-main.sales.orders",
    )  # fmt: skip
    assert unity.requests == [
        "GET /tables/main.sales.orders", "GET /delta/v1/config",
        "POST /temporary-table-credentials",
    ]  # fmt: skip
    assert current(locate(NAME, settings(unity), read_only=False))["key"] == "AK-READ_WRITE"
    # The process knows by now that this server has no Delta API.
    assert len(unity.requests) == 5


def test_the_delta_api_and_the_longest_prefix(unity: UnityStub) -> None:
    def vend(operation: str) -> list[dict[str, object]]:
        return [
            {"prefix": prefix, "operation": operation, "expiration-time-ms": seconds_from_now(3600),
             "config": {"s3.access-key-id": key, "s3.secret-access-key": "vended-secret"}}
            for prefix, key in (("s3://lake", "vended-short"), ("s3://lake/orders/", "vended-long"),
                                ("s3://lake/order", "vended-other"))
        ]  # fmt: skip

    unity.delta_vend = vend
    assert current(locate(NAME, settings(unity), read_only=True))["key"] == "vended-long"
    assert unity.requests[-1] == (
        "GET /delta/v1/catalogs/main/schemas/sales/tables/orders/credentials"
    )
    assert len(unity.requests) == 3


def test_local_tables_need_one_request(unity: UnityStub) -> None:
    unity.add("main.sales.here", "file:///data/here")
    located = locate("uc://main.sales.here", settings(unity), read_only=False)
    assert (located.uri, located.own_credentials) == ("file:///data/here", None)
    assert unity.requests == ["GET /tables/main.sales.here"]


def test_without_credentials_the_users_own_are_used(unity: UnityStub) -> None:
    located = locate(NAME, settings(unity), read_only=True)
    assert not isinstance(located.options, VendedOptions)
    assert "your own credentials" in str(located.own_credentials)


def test_a_listing_takes_one_request_per_page(unity: UnityStub) -> None:
    for number in range(250):
        unity.add(f"main.big.t{number:03}", f"s3://lake/{number}", owner=None)
    unity.add("main.big.view", "", table_type="VIEW", data_source_format=None)
    found = list(list_tables("uc://main.big.*", settings(unity)))
    assert unity.requests == ["GET /tables"] * 3
    assert [each.name for each in found if not each.is_delta] == ["uc://main.big.view"]
    assert len([each for each in found if each.is_delta]) == 250
    every = {each.name for each in list_tables("uc://main.*.*", settings(unity))}
    assert {NAME, "uc://main.big.t000"} < every
    with pytest.raises(UsageError):
        list(list_tables("uc://*.big.t", settings(unity)))


def refusal(unity: UnityStub, name: str = NAME, **further: str) -> DeltactlError:
    with pytest.raises(DeltactlError) as raised:
        locate(name, settings(unity, **further), read_only=True)
    return raised.value


def test_a_missing_table_names_similar_ones(unity: UnityStub) -> None:
    error = refusal(unity, "uc://main.sales.order")
    assert isinstance(error, NotATableError)
    assert "Did you mean uc://main.sales.orders?" in error.message


def test_what_is_no_delta_table_is_refused(unity: UnityStub) -> None:
    unity.add("main.sales.view", "", table_type="VIEW", data_source_format=None)
    unity.add("main.sales.pq", "s3://lake/pq", data_source_format="PARQUET")
    unity.add("main.sales.mv", "s3://lake/mv", table_type="MATERIALIZED_VIEW")
    unity.add("main.sales.live", "s3://lake/live", table_type="STREAMING_TABLE")
    kinds = {"view": "VIEW", "pq": "PARQUET", "mv": "MATERIALIZED_VIEW", "live": "STREAMING_TABLE"}
    for name, kind in kinds.items():
        error = refusal(unity, f"uc://main.sales.{name}")
        assert isinstance(error, UnsupportedFeatureError)
        assert kind in error.message


def test_a_refused_token_is_not_shown(unity: UnityStub) -> None:
    unity.tokens = {"another"}
    error = refusal(unity)
    assert isinstance(error, AccessDeniedError)
    assert "expired" in str(error.hint)
    assert TOKEN not in error.message


def test_a_refusal_names_the_privilege(unity: UnityStub) -> None:
    unity.forbidden = {"READ_WRITE"}
    locate(NAME, settings(unity), read_only=True)
    with pytest.raises(AccessDeniedError) as raised:
        locate(NAME, settings(unity), read_only=False)
    assert "MODIFY" in str(raised.value.hint)
    assert "EXTERNAL USE SCHEMA on main.sales" in str(raised.value.hint)


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(unity: UnityStub, status: int) -> None:
    unity.vend, unity.faults = aws, [status] * 4
    locate(NAME, settings(unity), read_only=True)
    unity.faults = [status] * 5
    error = refusal(unity)
    assert isinstance(error, StorageError)
    assert not unity.faults


def test_an_unreachable_server(unity: UnityStub) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        error = refusal(unity, databricks_host=dead)
    assert (error.exit_code, error.code) == (8, "UNREACHABLE")
    assert error.message.startswith(f"the catalog at {dead}/")
    assert " cannot be reached: Failed to establish a new connection: [Errno " in error.message


def test_http_is_for_this_machine_only(unity: UnityStub) -> None:
    error = refusal(unity, databricks_host="http://catalog.example")
    assert isinstance(error, SafetyError)
    http.ensure_safe("http://catalog.example", allow_http=True)
    assert isinstance(refusal(unity, databricks_host="ftp://x"), UsageError)
    assert isinstance(refusal(unity, databricks_host=""), UsageError)


@pytest.mark.parametrize(
    "host", ["https://u:secret@h", "https://:secret@h", "https://h/?o=secret", "https://h#secret"]
)
def test_a_host_is_an_address_alone(unity: UnityStub, host: str) -> None:
    error = refusal(unity, databricks_host=host)
    assert isinstance(error, UsageError)
    assert "secret" not in f"{error.message} {error.hint}"


def test_no_part_of_a_token_is_shown() -> None:
    http.bearer(TOKEN)
    text = "x" * 295 + TOKEN
    assert TOKEN[:4] not in http.Answer(401, {"message": text}, 0.0).message


def test_oauth_for_machines(unity: UnityStub) -> None:
    given = {
        "databricks_host": unity.address,
        "databricks_client_id": "machine",
        "databricks_client_secret": "planted-secret",
    }
    assert locate(NAME, given, read_only=True).uri == "s3://lake/orders"
    locate(NAME, given, read_only=True)
    assert unity.requests.count("POST /oidc/v1/token") == 1
    with pytest.raises(AccessDeniedError, match="gave no token to the client other"):
        locate(NAME, {**given, "databricks_client_id": "other"}, read_only=True)


def test_what_workers_get_has_no_secret_of_the_catalog(
    unity: UnityStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    unity.vend = aws
    located = locate(NAME, settings(unity), read_only=False)
    data = pickle.dumps(located.options)
    assert TOKEN.encode() not in data
    there = pickle.loads(data)
    assert there.current(located.uri) == current(located)
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    assert there.source.fetch()[0].options["key"] == "AK-READ_WRITE"
    monkeypatch.delenv("DATABRICKS_TOKEN")
    with pytest.raises(AccessDeniedError, match="refused the token"):
        there.source.fetch()


def test_nothing_is_logged_of_secrets(unity: UnityStub, caplog: pytest.LogCaptureFixture) -> None:
    unity.vend = aws
    with caplog.at_level(logging.DEBUG):
        located = locate(NAME, settings(unity), read_only=True)
    shown = caplog.text + repr(located)
    assert TOKEN not in shown
    assert "vended-secret" not in shown


def test_answers_of_another_server(unity: UnityStub) -> None:
    unity.tables["main.sales.orders"] = {"columns": [1]}
    assert isinstance(refusal(unity), StorageError)
    assert parse_name(NAME).parts == ("main", "sales", "orders")
    for unity.listing in ({"tables": [{}]}, {"tables": [1]}, {"next_page_token": "1"}):
        with pytest.raises(StorageError, match="in an unknown form"):
            list(list_tables("uc://main.sales.*", settings(unity)))


def test_the_sdk_of_databricks_authorizes_if_it_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Config:
        def __init__(self, *, host: str, profile: str | None, retry_timeout_seconds: int) -> None:
            if profile == "none":
                raise ValueError("cannot configure default credentials")
            self.host = host

        def authenticate(self) -> dict[str, str]:
            return {"Authorization": "Bearer of-the-sdk"}

    core = types.ModuleType("databricks.sdk.core")
    core.Config = Config  # type: ignore[attr-defined]
    for name in ("databricks", "databricks.sdk"):
        package = types.ModuleType(name)
        package.__spec__ = importlib.machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setitem(sys.modules, "databricks.sdk.core", core)
    address = "https://x.cloud.databricks.com"
    headers = choose_headers(address, {}, allow_http=False)
    assert headers() == {"Authorization": "Bearer of-the-sdk"}
    with pytest.raises(AccessDeniedError, match="no credentials"):
        choose_headers(address, {"profile": "none"}, allow_http=False)
    # A token needs no SDK, and other servers may need nothing.
    given = choose_headers(address, {"token": "mine"}, allow_http=False)
    assert given() == {"Authorization": "Bearer mine"}
    assert choose_headers("https://unity.example", {}, allow_http=False)() == {}
