"""Storage that does not let the program in: one error in two lines says why, and what helps."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.conftest import RunCli
from tests.faults.scenes import build_table
from tests.support.fault_proxy import Answer, Rule, fault_proxy
from tests.support.object_servers import AZURE_ACCOUNT, AZURE_KEY

_KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "a-secret"}
_GCS_TOKEN = {"GCS_TOKEN": "ya29.a-secret", "FETCH_RAW_TOKEN_EXPIRY": "false"}
_ACCOUNT = f"AccountName={AZURE_ACCOUNT};AccountKey={AZURE_KEY}"
_AZURE = "abfss://c@devstoreaccount1.dfs.core.windows.net/t"


def _xml(status: int, code: str, text: str = "") -> Answer:
    body = f"<Error><Code>{code}</Code><Message>{text or f'said {code}'}</Message></Error>"
    headers = {"x-ms-error-code": code, "Content-Type": "application/xml"}
    return Answer(status, after=False, body=body.encode(), headers=headers)


def _google(status: int, text: str) -> Answer:
    body = json.dumps({"error": {"code": status, "message": text}})
    return Answer(status, after=False, body=body.encode())


@dataclass(frozen=True, slots=True)
class Case:
    """What is set and answered, and what the program says then.

    ``{endpoint}`` in options stands for a server that gives ``answer``.
    """

    name: str
    address: str
    code: str
    says: str
    hint: str
    answer: Answer | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=dict)


def _s3(name: str, code: str, says: str, hint: str, answer: Answer | None) -> Case:
    return Case(
        f"s3-{name}", "s3://b/t", code, says, hint, answer, {"endpoint_url": "{endpoint}"}, _KEYS
    )


def _gcs(name: str, code: str, says: str, hint: str, answer: Answer) -> Case:
    options = {"endpoint_url": "{endpoint}", "token": "env:GCS_TOKEN"}
    return Case(f"gcs-{name}", "gs://b/t", code, says, hint, answer, options, _GCS_TOKEN)


def _azure(name: str, code: str, says: str, hint: str, answer: Answer) -> Case:
    place = f"{_ACCOUNT};BlobEndpoint={{endpoint}}/{AZURE_ACCOUNT}"
    return Case(f"azure-{name}", _AZURE, code, says, hint, answer, {"connection_string": place})


_ANONYMOUS = "Anonymous caller does not have storage.objects.list access to the bucket."
_TIME_FRAME = "AuthenticationFailed: Signature not valid in the specified time frame"
CASES = [
    Case(
        "s3-no-credentials", "s3://b/t", "CREDENTIALS_MISSING",
        "no credentials were found in the storage options, AWS_ACCESS_KEY_ID",
        "Set AWS_ACCESS_KEY_ID",
    ),
    Case(
        "gcs-no-credentials", "gs://b/t", "CREDENTIALS_MISSING",
        "no credentials were found in the storage option token, GOOGLE_APPLICATION_CREDENTIALS",
        "gcloud auth application-default login", _google(401, _ANONYMOUS),
        {"endpoint_url": "{endpoint}"},
    ),
    Case(
        "gcs-no-key-file", "gs://b/t", "CREDENTIALS_REFUSED", "File /nowhere was not found",
        "Correct the credentials", environ={"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere"},
    ),
    Case(
        "azure-no-credentials", _AZURE, "CREDENTIALS_MISSING",
        "no credentials were found in the storage options, AZURE_STORAGE_CONNECTION_STRING",
        "az login",
    ),
    Case(
        "azure-no-account", "az://c/t", "USAGE", "has no storage account",
        "AZURE_STORAGE_ACCOUNT_NAME",
    ),
    Case(
        "s3-no-profile", "s3://b/t", "CREDENTIALS_REFUSED", "profile (nobody)", "AWS_PROFILE",
        environ={"AWS_PROFILE": "nobody"},
    ),
    _s3("wrong", "CREDENTIALS_REFUSED", "said InvalidAccessKeyId", "Correct the credentials",
        _xml(403, "InvalidAccessKeyId")),
    _s3("expired", "CREDENTIALS_EXPIRED", "said ExpiredToken", "aws sso login",
        _xml(400, "ExpiredToken")),
    _s3("denied", "ACCESS_DENIED", "said AccessDenied", "s3:ListBucket", _xml(403, "AccessDenied")),
    _s3("no-bucket", "BUCKET_NOT_FOUND", "said NoSuchBucket", "name of the bucket",
        _xml(404, "NoSuchBucket")),
    _gcs("wrong", "CREDENTIALS_REFUSED", "Invalid Credentials", "Correct the credentials",
         _google(401, "Invalid Credentials")),
    _gcs("expired", "CREDENTIALS_EXPIRED", "The access token expired", "gcloud auth",
         _google(401, "The access token expired.")),
    _gcs("denied", "ACCESS_DENIED", "no access", "storage.objects.list", _google(403, "no access")),
    _gcs("no-bucket", "BUCKET_NOT_FOUND", "'b' does not exist", "name of the bucket",
         _google(404, "The specified bucket does not exist.")),
    _azure("wrong", "CREDENTIALS_REFUSED", "said AuthenticationFailed", "Correct the credentials",
           _xml(403, "AuthenticationFailed")),
    _azure("expired", "CREDENTIALS_EXPIRED", "time frame", "SAS token",
           _xml(403, "AuthenticationFailed", _TIME_FRAME)),
    _azure("denied", "ACCESS_DENIED", "said AuthorizationPermissionMismatch",
           "Storage Blob Data Reader", _xml(403, "AuthorizationPermissionMismatch")),
    _azure("no-bucket", "BUCKET_NOT_FOUND", "'c' does not exist", "bucket or container",
           _xml(404, "ContainerNotFound")),
    Case(
        "s3-no-network", "s3://b/t", "UNREACHABLE", "connection to s3.invalid:9000", "the network",
        options={"endpoint_url": "https://s3.invalid:9000"}, environ=_KEYS,
    ),
    Case(
        "gcs-no-network", "gs://b/t", "UNREACHABLE", "no connection to gcs.invalid", "the network",
        options={"endpoint_url": "https://gcs.invalid"},
    ),
    Case(
        "azure-no-network", _AZURE, "UNREACHABLE", "no connection to blob.invalid", "the network",
        options={"connection_string": f"{_ACCOUNT};BlobEndpoint=https://blob.invalid/x"},
    ),
]  # fmt: skip


@pytest.fixture
def clean(tmp_path: Path) -> dict[str, str]:
    """The environment of a user without any credentials."""
    return {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path.cwd()),
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_GCE_CHECK": "true",
        "DELTACTL_CONFIG": os.devnull,
    }


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Iterator[tuple[Case, list[str]]]:
    """A case, and the arguments of the program in it."""
    found: Case = request.param
    with fault_proxy("http://127.0.0.1:1") as proxy:
        if found.answer is not None:
            proxy.add(Rule(found.answer, times=None))
        pairs = (
            f"{name}={value.replace('{endpoint}', proxy.endpoint)}"
            for name, value in found.options.items()
        )
        options = [word for pair in pairs for word in ("--storage-option", pair)]
        yield found, ["describe-detail", found.address, *options]


def _run(words: list[str], environ: dict[str, str], *before: str) -> tuple[int, list[str]]:
    ran = subprocess.run(
        [*before, sys.executable, "-W", "default", "-m", "deltactl", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environ,
    )
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    return ran.returncode, [line for line in lines if "other users can see" not in line]


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.timeout(60)  # without a network too
def test_storage_that_does_not_let_us_in(
    case: tuple[Case, list[str]],
    clean: dict[str, str],
    cli: RunCli,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, words = case
    for name, value in {**clean, **expected.environ}.items():
        monkeypatch.setenv(name, value)
    ran = cli(*words, "--log-format", "json")
    lines = (json.loads(line) for line in ran.err.splitlines())
    (said,) = (line for line in lines if "other users can see" not in line["message"])
    assert (said["level"], said["code"]) == ("error", expected.code)
    assert expected.says in said["message"]
    assert expected.hint in said["hint"]
    assert "a-secret" not in ran.err
    assert "\n" not in said["message"]
    assert (ran.code, ran.out) == (2 if expected.code == "USAGE" else 8, "")


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("sso_session = nobody\nsso_account_id = 1\nsso_role_name = r", "sso-session"),
        ("role_arn = arn:aws:iam::1:role/r\nsource_profile = nobody", "source_profile"),
        ("[[", "Unable to parse config file"),
    ],
)
def test_a_profile_that_is_not_valid(
    config: str, says: str, clean: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(f"[profile p]\n{config}\n")
    environ = {**clean, "AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_PROFILE": "p"}
    # In a process of its own: a process keeps the connection that it made before.
    code, lines = _run(["describe-detail", "s3://b/t", "--log-format", "json"], environ)
    (said,) = map(json.loads, lines)
    assert (code, said["code"]) == (8, "CREDENTIALS_REFUSED")
    assert says in said["message"]
    assert "Correct the credentials" in said["hint"]


def test_a_library_logs_nothing_on_the_terminal(clean: dict[str, str]) -> None:
    code, lines = _run(["describe-detail", _AZURE], clean)
    assert code == 8
    assert [line.partition(":")[0] for line in lines] == ["error", "hint", "note"]
    _, lines = _run(["describe-detail", _AZURE, "-vv"], clean)
    assert any("azure.identity" in line for line in lines)


def _restricted() -> tuple[str, ...]:
    """Return what is before a command so that root may do only what other users may."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("no setpriv to restrict root with")
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search")


def test_a_quarantine_of_files_in_a_directory_that_cannot_be_changed(
    tmp_path: Path, clean: dict[str, str]
) -> None:
    build_table(tmp_path / "t")
    (folder,) = (tmp_path / "t").glob("p=1")
    old = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    words = ["vacuum", str(tmp_path / "t"), "--quarantine", "--mode", "full", "--yes"]
    words += ["--force-retention", "--retain", "0s", "--max-orphan-fraction", "1.0"]
    folder.chmod(0o500)
    try:
        ran = subprocess.run(
            [*_restricted(), sys.executable, "-m", "deltactl", *words],
            capture_output=True,
            text=True,
            check=False,
            env=clean,
        )
    finally:
        folder.chmod(0o700)
    assert ran.returncode == 8, ran.stderr
    assert "Permission denied" in ran.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == old
    assert not [*(tmp_path / "t/_deltactl/quarantine").glob("*/p=1/*")]


@pytest.mark.parametrize("command", ["describe-detail", "optimize"])
def test_a_directory_without_permission(
    command: str, tmp_path: Path, clean: dict[str, str]
) -> None:
    """Root is restricted to what other users may do."""
    before = _restricted()
    build_table(tmp_path / "t")
    denied = tmp_path / "t" / "_delta_log"
    denied.chmod(0o500 if command == "optimize" else 0)
    try:
        code, lines = _run([command, str(tmp_path / "t")], clean, *before)
    finally:
        denied.chmod(0o700)
    assert code == 8
    assert "Permission denied" in lines[-3]
    assert lines[-2].startswith("hint: Run deltactl as the owner of the file")
    assert "chmod" in lines[-2]
