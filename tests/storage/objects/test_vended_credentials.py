"""Credentials of a catalog, on servers: they end, and are replaced."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from deltactl.errors import AccessDeniedError
from deltactl.storage.open import open_store
from deltactl.storage.store import Store
from deltactl.storage.vended import Credentials, VendedOptions
from tests.storage.test_vended import Clock, clock
from tests.support.object_servers import AZURE_ACCOUNT, AZURE_KEY, S3_ENVIRON, ObjectServer
from tests.support.object_store_fixtures import choose_servers

__all__ = ["clock"]

AZURITE = choose_servers("azurite")


@dataclass
class Source:
    """Gives what ``make`` returns for a lifetime, and counts how often."""

    prefix: str
    lifetime: float
    make: Callable[[float], Mapping[str, str]]
    fetched: int = 0

    __hash__ = object.__hash__

    def fetch(self) -> Sequence[Credentials]:
        self.fetched += 1
        return [Credentials.of(self.prefix, self.make(self.lifetime), self.lifetime)]


def sign(lifetime: float, permission: str = "rwdlac") -> Mapping[str, str]:
    """A signature that Azurite honours for some seconds."""
    from azure.storage.blob import generate_container_sas

    # Times in signatures have whole seconds.
    now = datetime.now(UTC)
    signature = generate_container_sas(
        AZURE_ACCOUNT, "lake", account_key=AZURE_KEY, permission=permission,
        start=now - timedelta(minutes=5), expiry=now + timedelta(seconds=lifetime),
    )  # fmt: skip
    return {"sas_token": signature}


def open_azurite(server: ObjectServer, source: Source) -> Store:
    endpoint = f"BlobEndpoint={server.endpoint}/{AZURE_ACCOUNT};SharedAccessSignature=none"
    return open_store(source.prefix, VendedOptions({"connection_string": endpoint}, source))


@pytest.mark.parametrize("server", AZURITE, indirect=True)
def test_signatures_of_azure_are_replaced(server: ObjectServer, clock: Clock) -> None:
    source = Source("abfss://lake@devstoreaccount1.dfs.core.windows.net/vended", 600, sign)
    store = open_azurite(server, source)
    for number in range(3):
        store.put("a", b"first")
        store.put_if_absent("b", b"second")
        assert store.read("a") == b"first"
        assert store.move_many([("a", "c")]) == {}
        assert sorted(name for names in store.walk("") for name in names) == ["b", "c"]
        assert store.delete_many(["b", "c"]) == {}
        assert source.fetched == number + 1
        clock.now += 301


@pytest.mark.parametrize("server", AZURITE, indirect=True)
def test_a_signature_for_reading_writes_nothing(server: ObjectServer) -> None:
    place = "abfss://lake@devstoreaccount1.dfs.core.windows.net/only-read"
    store = open_azurite(server, Source(place, 60, lambda lifetime: sign(lifetime, "rl")))
    with pytest.raises(AccessDeniedError) as raised:
        store.put("a", b"x")
    assert "sig=" not in raised.value.message.replace("sig=***", "")


@pytest.mark.parametrize("server", AZURITE, indirect=True)
def test_a_signature_that_ended_is_refused(server: ObjectServer) -> None:
    """The server of the test does look at the time."""
    place = "abfss://lake@devstoreaccount1.dfs.core.windows.net/ended"

    def ended(lifetime: float) -> Mapping[str, str]:
        return sign(-60)

    with pytest.raises(AccessDeniedError):
        open_azurite(server, Source(place, 60, ended)).put("a", b"x")


@pytest.mark.parametrize("server", choose_servers("minio"), indirect=True)
def test_keys_of_s3_are_replaced(server: ObjectServer, clock: Clock) -> None:
    """MinIO refuses the second key, so the store must have asked for it."""
    keys = iter([S3_ENVIRON["AWS_SECRET_ACCESS_KEY"], "wrong-secret-0123456789"])

    def make(lifetime: float) -> Mapping[str, str]:
        return {"key": S3_ENVIRON["AWS_ACCESS_KEY_ID"], "secret": next(keys)}

    source = Source(f"{server.bucket}/replaced", 600, make)
    options = {"endpoint_url": server.endpoint, "region": "us-east-1", "key": "wrong"}
    store = open_store(source.prefix, VendedOptions(options, source))
    store.put("a", b"x")
    assert store.read("a") == b"x"
    clock.now += 301
    with pytest.raises(AccessDeniedError) as raised:
        store.read("a")
    assert source.fetched == 2
    assert "wrong-secret" not in raised.value.message


def test_tokens_of_gcs_are_looked_up_for_each_request() -> None:
    from deltactl.storage.objects.gcs import VendedToken

    tokens = iter(["first", "second", "third"])
    credentials = VendedToken(lambda: {"token": next(tokens)})
    headers: dict[str, Any] = {}
    credentials.apply(headers)  # type: ignore[no-untyped-call]
    assert headers["authorization"] == "Bearer first"
    credentials.apply(headers)  # type: ignore[no-untyped-call]
    assert headers["authorization"] == "Bearer second"
    assert credentials.valid


@pytest.mark.parametrize("server", choose_servers("fake-gcs"), indirect=True)
def test_a_token_of_gcs_is_sent(server: ObjectServer) -> None:
    source = Source(f"{server.bucket}/vended", 3600, lambda lifetime: {"token": "planted"})
    store = open_store(source.prefix, VendedOptions({**server.options, "token": "anon"}, source))
    store.put("a", b"x")
    assert store.read("a") == b"x"


@pytest.mark.parametrize("server", choose_servers("minio"), indirect=True)
def test_other_places_are_opened_with_the_users_own(server: ObjectServer) -> None:
    source = Source(f"{server.bucket}/vended", 3600, lambda lifetime: {"key": "x", "secret": "y"})
    options = VendedOptions(server.options, source)
    store = open_store(f"{server.bucket}/other", options)
    store.put("a", b"x")
    assert store.read("a") == b"x"
    with pytest.raises(AccessDeniedError):
        open_store(source.prefix, options).read("a")
