"""The file system of S3: which settings it takes, and what it does not repeat."""

import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from botocore import UNSIGNED

from deltactl.errors import StorageError
from deltactl.storage.objects.connect import find_service
from deltactl.storage.open import open_store
from deltactl.storage.providers import S3
from deltactl.storage.secrets import secret_values
from tests.support.fault_proxy import Answer, Cut, FaultProxy, Rule
from tests.support.object_servers import ObjectServer
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers

pytestmark = UNCLOSED_SESSIONS
ON_S3 = pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)


def files(**options: str) -> Any:
    service = find_service(S3, "s3://b/t", {"endpoint_url": "http://127.0.0.1:9", **options})
    return service.file_system


def test_settings_are_those_of_s3fs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[profile night]\naws_access_key_id = fr0mprofile\naws_secret_access_key = 0f-profile\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    assert files(profile="night").session.get_config_variable("profile") == "night"
    made = files(
        username="k3y",
        password="s3cr3t",
        requester_pays="true",
        client_kwargs='{"region_name": "eu-west-1"}',
        config_kwargs='{"connect_timeout": 3, "retries": {"max_attempts": 9}}',
        s3_additional_kwargs='{"SSECustomerKey": "s3cr3tk3y", "ServerSideEncryption": "AES256"}',
    )
    client = made.s3
    assert client.meta.endpoint_url == "http://127.0.0.1:9"
    config_of_client = client.meta.config
    assert (config_of_client.connect_timeout, config_of_client.read_timeout) == (3, 15)
    assert (config_of_client.max_pool_connections, config_of_client.region_name) == (
        32, "eu-west-1",
    )  # fmt: skip
    assert config_of_client.retries["total_max_attempts"] == 1
    assert made.retries == 1
    assert {"k3y", "s3cr3t", "s3cr3tk3y"} <= set(secret_values({}, made))
    listed = made._get_s3_method_kwargs(client.list_objects_v2)
    assert listed == {"RequestPayer": "requester"}
    put = made._get_s3_method_kwargs(client.put_object)
    assert sorted(put) == ["RequestPayer", "SSECustomerKey", "ServerSideEncryption"]


def test_anonymous_requests_are_not_signed() -> None:
    assert files(anon="true", key="k3y").s3.meta.config.signature_version is UNSIGNED


@pytest.mark.parametrize(("status", "body"), [
    (404, b""), (200, b"<html>Welcome</html>"), (403, b"<html>Log in<br></html>"), (407, b""),
])  # fmt: skip
def test_an_endpoint_that_is_not_s3_is_no_empty_bucket(status: int, body: bytes) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}"
        options = {"endpoint_url": endpoint, "key": "k", "secret": "s", "region": "us-east-1"}
        store = open_store("s3://b/t", options)
        with pytest.raises(StorageError, match=f"{endpoint} did not answer like S3") as refused:
            list(store.list_from("_delta_log"))
        assert "AWS_ENDPOINT_URL" in str(refused.value.hint)
        if status == 200:
            with pytest.raises(StorageError, match="did not answer like S3"):
                store.read("a")
        server.shutdown()


def test_configuration_of_fsspec_cannot_turn_on_caches(tmp_path: Path) -> None:
    """In a process of its own: fsspec reads it once."""
    (tmp_path / "conf.json").write_text(
        '{"s3": {"key": "fr0mfile", "secret": "0f-file", "use_listings_cache": true,'
        ' "client_kwargs": {"verify": false}}}'
    )
    program = (
        "from deltactl.storage.objects.connect import find_service\n"
        "from deltactl.storage.providers import S3\n"
        "fs = find_service(S3, 's3://b/t', {'secret': 'given', 'region': 'r'}).file_system\n"
        "print(fs.key, fs.secret, fs.token, fs.client_kwargs, fs.dircache.use_listings_cache)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"FSSPEC_CONFIG_DIR": str(tmp_path), "FSSPEC_S3_TOKEN": "fr0menv"},
        cwd=Path(__file__).parents[3],
    )
    kwargs = "{'region_name': 'r', 'verify': False}"
    assert done.stdout == f"fr0mfile given fr0menv {kwargs} False\n"


@ON_S3
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NoSuchKey", FileNotFoundError),
        (403, "AccessDenied", PermissionError),
        (400, "ExpiredToken", PermissionError),
        (503, "SlowDown", OSError),
        (500, "InternalError", OSError),
        (412, "PreconditionFailed", OSError),
    ],
)
def test_a_refused_request_is_sent_once(
    status: int, code: str, kind: type[OSError], server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    body = f"<Error><Code>{code}</Code><Message>told</Message></Error>".encode()
    proxy.add(Rule(Answer(status, after=False, body=body), times=None))
    service = find_service(S3, root, dict(server.at(proxy.endpoint).options))
    with pytest.raises(OSError, match="told") as caught:
        service.create(service.key_of(f"{root}/x"), b"1")
    assert type(caught.value) is kind
    assert len(proxy.requests) == 1


@ON_S3
def test_a_conditional_put_is_not_sent_again_when_its_connection_breaks(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    service = find_service(S3, root, dict(server.at(proxy.endpoint).options))
    key = service.key_of(f"{root}/x")
    service.put(key, b"0")  # the connection is open and used again
    proxy.clear()
    proxy.add(Rule(Cut(after=True), "PUT"))
    with pytest.raises(Exception, match="[Cc]onnection"):
        service.create(service.key_of(f"{root}/y"), b"1")
    assert len(proxy.requests) == 1


@ON_S3
def test_names_that_s3fs_would_cut(server: ObjectServer, root: str) -> None:
    store = open_store(root, server.options)
    store.put("x", b"1")
    store.put_if_absent("x?versionId=2", b"2")
    with store.open_output("y?versionId=2") as file:
        file.write(b"3")
    assert store.read("x?versionId=2") == b"2"
    assert [store.read(name) for names in store.walk() for name in sorted(names)] == [
        b"1", b"2", b"3",
    ]  # fmt: skip
    assert store.delete_many(["x?versionId=2"]) == {}
    assert store.read("x") == b"1"


@ON_S3
def test_a_copy_has_the_bytes_of_its_source(server: ObjectServer, root: str) -> None:
    service: Any = find_service(S3, root, dict(server.options))
    source, target = (service.key_of(f"{root}/{name}") for name in ("a b", "c"))
    service.put(source, b"123")
    service.copy(source, target)
    assert service.read(target) == b"123"
    with pytest.raises(FileNotFoundError):
        service.copy(service.key_of(f"{root}/none"), target)
