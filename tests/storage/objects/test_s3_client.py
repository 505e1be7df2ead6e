"""The client of S3: what it loads, which settings it takes, and what its errors become."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore import UNSIGNED
from botocore.session import Session

from deltactl.storage.objects.connect import find_service
from deltactl.storage.objects.s3_client import S3Client, fsspec_settings
from deltactl.storage.open import open_store
from deltactl.storage.secrets import secret_values
from tests.support.fault_proxy import Answer, FaultProxy, Rule, fault_proxy
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import choose_servers

ON_S3 = pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)
MIB = 1 << 20


@pytest.fixture
def proxy(server: ObjectServer) -> Iterator[FaultProxy]:
    with fault_proxy(server.endpoint) as proxy:
        yield proxy


def client(**settings: Any) -> S3Client:
    return S3Client(Session(), {"endpoint_url": "http://127.0.0.1:9", **settings}, 32)


@ON_S3
def test_a_read_loads_no_event_loop(server: ObjectServer, root: str) -> None:
    open_store(root, server.options).put("x", b"12")
    program = (
        "import json, sys\n"
        "from deltactl.storage.open import open_store\n"
        "store = open_store(sys.argv[1], json.loads(sys.argv[2]))\n"
        "print([info.name for info in store.list_from('')], store.read('x'))\n"
        "heavy = {'asyncio', 'aiohttp', 'aiobotocore', 's3fs', 'fsspec', 'pyarrow', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, root, json.dumps(dict(server.options))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['x'] b'12'\n[]\n"


def test_settings_are_those_of_s3fs() -> None:
    made = client(
        username="k3y",
        password="s3cr3t",
        client_kwargs={"region_name": "eu-west-1"},
        config_kwargs={"connect_timeout": 3, "connector_args": {"keepalive_timeout": 5}},
        default_block_size=1,
    )
    assert made.endpoint == "http://127.0.0.1:9"
    config = made._connect().meta.config
    assert (config.connect_timeout, config.read_timeout) == (3, 15)
    assert (config.max_pool_connections, config.region_name) == (32, "eu-west-1")
    assert made._connect()._request_signer._credentials.access_key == "k3y"
    assert set(secret_values({}, made)) == {"k3y", "s3cr3t"}
    with pytest.raises(KeyError, match="not both"):
        client(key="a", username="b")


def test_anonymous_requests_are_not_signed() -> None:
    made = client(anon=True, key="k3y", secret="s3cr3t")
    config = made._connect().meta.config
    assert config.signature_version is UNSIGNED
    assert made._connect()._request_signer._credentials is None


def test_additions_go_to_the_operations_that_have_them() -> None:
    secret = "s3cr3tk3y"
    made = client(
        client_kwargs={"region_name": "eu-west-1"},
        requester_pays=True,
        s3_additional_kwargs={"SSECustomerKey": secret, "ServerSideEncryption": "AES256"},
    )
    connected = made._connect()
    listed = made._additions(connected, "list_objects_v2")
    assert listed == {"RequestPayer": "requester"}
    put = made._additions(connected, "put_object")
    assert sorted(put) == ["RequestPayer", "SSECustomerKey", "ServerSideEncryption"]
    assert secret in secret_values({}, made)


def test_configuration_of_fsspec(tmp_path: Path) -> None:
    """In a process of its own: fsspec reads it once."""
    (tmp_path / "conf.json").write_text('{"s3": {"key": "fr0mfile", "secret": "0f-file"}}')
    program = (
        "from deltactl.storage.objects.connect import find_service\n"
        "client = find_service('s3fs', 's3://b/t', {'secret': 'given'}).file_system\n"
        "print(client.key, client.secret, client.token)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"FSSPEC_CONFIG_DIR": str(tmp_path), "FSSPEC_S3_TOKEN": "fr0menv"},
        cwd=Path(__file__).parents[3],
    )
    assert done.stdout == "fr0mfile given fr0menv\n"


def test_without_configuration_fsspec_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fsspec_settings("s3") == {}


@ON_S3
def test_no_more_requests_at_once_than_connections(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    options = dict(server.at(proxy.endpoint).options)
    store = open_store(root, {**options, "config_kwargs": '{"max_pool_connections": 2}'})
    store.put("x", b"1")
    made: Any = store._fs  # type: ignore[attr-defined]
    inside, most, lock = 0, [0], threading.Lock()

    def enter(**_: Any) -> None:
        nonlocal inside
        with lock:
            inside += 1
            most[0] = max(most[0], inside)

    def leave(**_: Any) -> None:
        nonlocal inside
        with lock:
            inside -= 1

    made._session.register("before-send.s3", enter)
    made._session.register("response-received.s3", leave)
    made._client = None  # a client copies the handlers of its session
    assert list(store.read_many(["x"] * 40)) == [b"1"] * 40
    assert most[0] == 2


@ON_S3
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchKey", FileNotFoundError),
        (403, "AccessDenied", PermissionError),
        (400, "ExpiredToken", PermissionError),
        (400, "EntityTooLarge", OSError),
    ],
)
def test_refusals_become_errors_of_the_system(
    status: int, code: str, kind: type[OSError], server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    body = f"<Error><Code>{code}</Code><Message>told</Message></Error>".encode()
    proxy.add(Rule(Answer(status, after=False, body=body), "GET", times=None))
    service = find_service("s3fs", root, dict(server.at(proxy.endpoint).options))
    with pytest.raises(OSError, match="told") as caught:
        service.file_system.call("list_objects_v2", Bucket="lake")
    assert type(caught.value) is kind
    assert len(proxy.requests) == 1  # it is sent once


@ON_S3
def test_large_content_is_created_in_parts_or_not_at_all(server: ObjectServer, root: str) -> None:
    service: Any = find_service("s3fs", root, dict(server.options))
    key, data = service.key_of(f"{root}/x"), bytes(range(256)) * (11 * MIB // 256)
    service.create(key, data, part_bytes=5 * MIB)
    assert service.read(key) == data
    assert service.file_system.call("head_object", Bucket="lake", Key=key[5:])["ETag"].count("-3")


@ON_S3
def test_a_copy_has_the_bytes_of_its_source(server: ObjectServer, root: str) -> None:
    service: Any = find_service("s3fs", root, dict(server.options))
    source, target = (service.key_of(f"{root}/{name}") for name in ("a b", "c"))
    service.put(source, b"123")
    service.copy(source, target)
    assert service.read(target) == b"123"
    with pytest.raises(FileNotFoundError):
        service.copy(service.key_of(f"{root}/none"), target)
