"""What goes wrong with object stores is said in words that help, and ends with exit 8."""

import pytest

from deltactl import Table
from deltactl.errors import (
    AccessDeniedError,
    CredentialsExpiredError,
    CredentialsRefusedError,
    ObjectExistsError,
    StorageError,
    TransientStorageError,
)
from deltactl.storage.network import retry
from deltactl.storage.open import open_store
from tests.support.fault_proxy import Answer, FaultProxy, Rule
from tests.support.object_servers import AZURE_KEY, S3_ENVIRON, ObjectServer
from tests.support.object_store_fixtures import (
    ALL_SERVICES,
    UNCLOSED_SESSIONS,
    azure_blob,
    choose_servers,
)

pytestmark = UNCLOSED_SESSIONS
EVERYWHERE = pytest.mark.parametrize("server", ALL_SERVICES, indirect=True)
ON_S3 = pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)


def fail(address: str, options: dict[str, str]) -> StorageError:
    """The error of a look at a table, which tells no secret."""
    with pytest.raises(StorageError) as caught:
        Table(address, storage_options=options, warn=lambda _: None).snapshot()
    assert caught.value.exit_code == 8
    shown = f"{caught.value} {caught.value.hint}"
    assert not any(secret in shown for secret in (*S3_ENVIRON.values(), AZURE_KEY)[1:2])
    return caught.value


def xml(code: str, more: str = "") -> bytes:
    return f"<Error><Code>{code}</Code><Message>said {code}</Message>{more}</Error>".encode()


@EVERYWHERE
def test_a_bucket_that_is_not_there(server: ObjectServer) -> None:
    scheme = server.bucket.partition("://")[0]
    error = fail(f"{scheme}://no-such-bucket/t", dict(server.options))
    assert "Check the name of the bucket" in (error.hint or "")


@pytest.mark.parametrize("server", choose_servers("minio", "azurite"), indirect=True)
def test_wrong_credentials(server: ObjectServer, root: str) -> None:
    wrong = "d3Jvbmctc2VjcmV0LTAxMjM0NTY3ODk="
    options = {name: value.replace(AZURE_KEY, wrong) for name, value in server.options.items()}
    if "secret" in options:
        options["secret"] = wrong
    error = fail(root, options)
    assert isinstance(error, AccessDeniedError)
    assert wrong not in f"{error} {error.hint}"
    assert "credentials" in (error.hint or "")


@ON_S3
@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (403, "InvalidAccessKeyId", "credentials"),
        (400, "ExpiredToken", "AWS_SESSION_TOKEN"),
        (400, "AuthorizationHeaderMalformed", "AWS_REGION"),
        (400, "IllegalLocationConstraintException", "AWS_REGION"),
        (403, "RequestTimeTooSkewed", "clock"),
    ],
)
def test_errors_that_s3_has_names_for(
    server: ObjectServer, root: str, proxy: FaultProxy, status: int, code: str, words: str
) -> None:
    proxy.add(Rule(Answer(status, after=False, body=xml(code)), "GET", times=None))
    error = fail(root, dict(server.at(proxy.endpoint).options))
    assert words in (error.hint or "")


@ON_S3
def test_a_bucket_that_makes_the_requester_pay(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    options = dict(server.at(proxy.endpoint).options)
    open_store(root, options).put("_delta_log/x", b"")
    proxy.clear()
    store = open_store(root, {**options, "requester_pays": "true"})
    list(store.list_from("_delta_log"))
    store.read("_delta_log/x")
    store.open_input("_delta_log/x").close()
    store.put("y", b"")
    assert store.stat_many(["y"]) != [None]
    assert store.delete_many(["y"]) == {}
    assert len(proxy.requests) >= 6
    for request in proxy.requests:
        assert request.headers.get("x-amz-request-payer") == "requester", request.target


@EVERYWHERE
def test_who_may_read_but_not_list_gets_that_error(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    listing = r"list-type=2|comp=list|/o\?.*prefix="
    body = xml("AccessDenied") if server.kind != "fake-gcs" else b'{"error": {"message": "no"}}'
    if server.kind == "azurite":
        body = xml("AuthorizationPermissionMismatch")
    proxy.add(Rule(Answer(403, after=False, body=body), "GET", listing, times=None))
    error = fail(root, dict(server.at(proxy.endpoint).options))
    assert isinstance(error, AccessDeniedError)
    assert "list" in str(error)
    rights = ("s3:ListBucket", "storage.objects.list", "Storage Blob Data Reader")
    assert any(right in (error.hint or "") for right in rights)


@EVERYWHERE
@pytest.mark.usefixtures("short_pauses")
def test_a_store_that_is_busy_for_a_while_is_waited_for(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    options = dict(server.at(proxy.endpoint).options)
    open_store(root, options).put("x", b"content")
    busy = Answer(503, after=False, body=xml("SlowDown"), headers={"Retry-After": "0"})
    proxy.add(Rule(busy, times=2))
    assert open_store(root, options).read("x") == b"content"
    assert len([request for request in proxy.requests if request.fault is not None]) == 2


@ON_S3
def test_keys_refused_among_others_are_deleted_again(
    server: ObjectServer, root: str, proxy: FaultProxy
) -> None:
    store = open_store(root, server.at(proxy.endpoint).options)
    key = f"{root.removeprefix('s3://lake/')}/b"
    answer = (
        f"<DeleteResult><Error><Key>{key}</Key><Code>SlowDown</Code></Error></DeleteResult>"
    ).encode()
    proxy.add(Rule(Answer(200, after=False, body=answer), "POST"))
    assert store.delete_many(["a", "b"]) == {}
    bodies = [request.body for request in proxy.requests]
    assert [body.count(b"<Key>") for body in bodies] == [2, 1]
    denied = answer.replace(b"SlowDown", b"AccessDenied")
    proxy.add(Rule(Answer(200, after=False, body=denied), "POST"))
    failed = store.delete_many(["a", "b"])
    assert {name: type(error) for name, error in failed.items()} == {"b": AccessDeniedError}


@ON_S3
def test_an_endpoint_that_does_not_answer(
    server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_FIRST_DELAY_SECONDS", 0.01)
    options = {**server.options, "endpoint_url": "http://127.0.0.1:1"}
    error = fail(root, options)
    assert isinstance(error, TransientStorageError)


@pytest.mark.parametrize("server", choose_servers("azurite"), indirect=True)
def test_an_address_in_another_account_is_refused(server: ObjectServer) -> None:
    with pytest.raises(StorageError, match="storage account 'other'"):
        open_store("abfss://lake@other.dfs.core.windows.net/t", server.options)
    store = open_store("abfss://lake@devstoreaccount1.dfs.core.windows.net/t/%23x", server.options)
    store.put("a#1?x", b"1")
    assert open_store("az://lake/t/%23x", server.options).read("a#1?x") == b"1"
    with pytest.raises(StorageError, match="storage account 'other'"):
        store.read("abfss://lake@other.dfs.core.windows.net/t/a")


@ON_S3
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (403, "InvalidAccessKeyId", CredentialsRefusedError),
        (400, "ExpiredToken", CredentialsExpiredError),
        (403, "AccessDenied", AccessDeniedError),
    ],
)
def test_the_cause_of_a_refused_head_is_asked_for(
    server: ObjectServer,
    root: str,
    proxy: FaultProxy,
    status: int,
    code: str,
    kind: type[StorageError],
) -> None:
    """The answer to HEAD has no body, so no code."""
    store = open_store(root, dict(server.at(proxy.endpoint).options))
    proxy.add(Rule(Answer(status, after=False, body=xml(code)), times=None))
    with pytest.raises(StorageError) as caught:
        store.stat_many(["x"])
    assert type(caught.value) is kind
    assert [request.method for request in proxy.requests if request.method != "HEAD"] == ["GET"]


@pytest.mark.parametrize(
    ("server", "status", "code"),
    [
        ("moto", 403, "InvalidObjectState"),
        ("moto", 403, "ObjectNotInActiveTierError"),
        ("azurite", 409, "BlobArchived"),
        ("azurite", 409, "BlobBeingRehydrated"),
    ],
    indirect=["server"],
)
def test_an_archived_object_is_to_be_restored(
    server: ObjectServer, root: str, proxy: FaultProxy, status: int, code: str
) -> None:
    store = open_store(root, dict(server.at(proxy.endpoint).options))
    store.put("x", b"content")
    proxy.clear()
    headers = {"x-ms-error-code": code, "Content-Type": "application/xml"}
    archived = Answer(status, after=False, body=xml(code), headers=headers)
    proxy.add(Rule(archived, "GET", times=None))
    with pytest.raises(StorageError) as caught:
        store.read("x")
    assert (caught.value.code, caught.value.exit_code) == ("STORAGE", 8)
    assert (caught.value.hint or "").startswith("Restore the object from the archive")
    assert len(proxy.requests) == 1
    proxy.add(Rule(archived, "PUT", times=None))
    (error,) = store.move_many([("x", "y")]).values()
    assert (error.hint or "").startswith("Restore the object from the archive")


@pytest.mark.parametrize("server", choose_servers("azurite"), indirect=True)
@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ("SnapshotsPresent", "Delete the snapshots of"),
        ("LeaseIdMissing", "Break the lease of"),
        ("BlobImmutableDueToPolicy", "Remove the legal hold or the immutability policy"),
        ("BlobImmutableDueToLegalHold", "Remove the legal hold or the immutability policy"),
    ],
)
def test_a_blob_that_azure_keeps(
    server: ObjectServer, root: str, proxy: FaultProxy, code: str, hint: str
) -> None:
    store = open_store(root, dict(server.at(proxy.endpoint).options))
    blob = azure_blob(server, root, "x")
    store.put("x", b"content")
    if code == "SnapshotsPresent":
        blob.create_snapshot()
    elif code == "LeaseIdMissing":
        blob.acquire_lease()
    else:
        headers = {"x-ms-error-code": code, "Content-Type": "application/xml"}
        answer = Answer(409, after=False, body=xml(code), headers=headers)
        proxy.add(*(Rule(answer, method, times=None) for method in ("DELETE", "PUT")))
    (error,) = store.delete_many(["x"]).values()
    assert (error.code, error.retryable, error.had_no_effect) == ("STORAGE", False, True)
    assert (error.hint or "").startswith(hint)
    with pytest.raises(ObjectExistsError):  # of another writer of the same version
        store.put_if_absent("x", b"other")


@ON_S3
@pytest.mark.parametrize("right", ["kms:Decrypt", "kms:GenerateDataKey"])
def test_the_right_that_the_store_names_is_in_the_hint(
    server: ObjectServer, root: str, proxy: FaultProxy, right: str
) -> None:
    store = open_store(root, dict(server.at(proxy.endpoint).options))
    said = f"User: u is not authorized to perform: {right} on resource: arn:aws:kms:r:1:key/k"
    body = xml("AccessDenied").replace(b"said AccessDenied", said.encode())
    proxy.add(Rule(Answer(403, after=False, body=body), times=None))
    for request in (lambda: store.read("x"), lambda: store.put("x", b"")):
        with pytest.raises(AccessDeniedError) as caught:
            request()
        assert caught.value.hint == f"Give the identity of these credentials {right}."
