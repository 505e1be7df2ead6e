"""Credentials planted wherever one can be given: no byte that a run writes holds any of them.

Event logs and plans of Spark are looked through in ``tests/cli/commands/test_optimize_spark.py``.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path

import pytest

from deltactl.catalog.kinds import KINDS
from deltactl.cli.command_table import COMMANDS
from deltactl.cli.output.output import OutputFormat
from deltactl.storage.open import open_store
from tests.cli.conftest import MARK, RunCli
from tests.faults.scenes import build_directory, build_table
from tests.support.object_servers import S3_ENVIRON, ObjectServer
from tests.support.object_store_fixtures import UNCLOSED_SESSIONS, choose_servers
from tests.support.spark_servers import worker_environ
from tests.support.table_builder import Column, TableBuilder
from tests.support.unity_stub import UnityStub

_OPTIONS = (
    "key", "secret", "token", "password", "secret_key", "aws_secret_access_key",
    "aws_session_token", "account_key", "sas_token", "client_secret", "connection_string",
    "credential", "access_token", "refresh_token", "private_key", "signature",
)  # fmt: skip
_NESTED = {
    "client_kwargs": '{"aws_secret_access_key": "%s"}',
    "s3_additional_kwargs": '{"SSECustomerKey": "%s"}',
    "config_kwargs": '{"proxies_config": {"proxy_password": "%s"}}',
}
_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY",
    "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_CLIENT_SECRET", "GOOGLE_APPLICATION_CREDENTIALS", "FSSPEC_S3_SECRET", "FSSPEC_S3_KEY",
    "DELTACTL_TEST_SECRET",
)  # fmt: skip

pytestmark = [*UNCLOSED_SESSIONS, pytest.mark.usefixtures("short_pauses")]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every variable is set; gives the arguments that set every option."""
    for name in _VARIABLES:
        monkeypatch.setenv(name, f"{MARK}-variable-{name}")
    options = {name: f"{MARK}-option-{name}" for name in _OPTIONS}
    options["session_token"] = "env:DELTACTL_TEST_SECRET"
    options |= {name: form % f"{MARK}-nested-{name}" for name, form in _NESTED.items()}
    return [word for item in options.items() for word in ("--storage-option", "=".join(item))]


def find_marks(*folders: Path) -> list[tuple[str, bytes]]:
    """Files with a planted text in their name or content, and what stands around it."""
    return [
        (str(path), data[max(0, data.find(MARK.encode()) - 40) :][:120])
        for folder in folders
        for path in folder.rglob("*")
        for data in [path.read_bytes() if path.is_file() else b""]
        if MARK.encode() in data or MARK in str(path)
    ]


def runs(root: Path) -> Iterator[list[str]]:
    """Every command once, some in ways that keep more of what they do."""
    more = {
        "alter": ["--set", "team=x"],
        "vacuum": ["--yes", "--mode", "full", "--max-orphan-fraction", "1", "--quarantine"],
        "checkpoint": ["--cleanup", "--compact-log"],
        "check": ["--files", "data", "--resume", str(root.parent / "resume")],
        "generate-manifest": ["--ddl", "hive"],
        "register": ["uc://main.sales.events"],
        "clone": [str(root.parent / "clone"), "--deep"],
        "restore": ["--to-version", "0"],
    }
    for spec in COMMANDS:
        if spec.name not in ("config", "explain", "complete"):
            folder = root.parent / "directory" if spec.name == "convert" else root
            yield [spec.name, str(folder), *more.get(spec.name, [])]


def test_no_run_on_a_disk_writes_a_credential(
    cli: RunCli,
    planted: list[str],
    unity: UnityStub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build_table(tmp_path / "t")
    build_directory(tmp_path / "directory")
    monkeypatch.chdir(tmp_path)
    for words in runs(tmp_path / "t"):
        ran = cli(*words, *planted, "-vvv", "--debug", "--log-format", "json")
        assert ran.code == 0, ran.err
        assert MARK not in ran.out + ran.err
    for words in (
        ["config"],
        ["optimize", "nowhere", *planted],
        ["optimize", "t", *planted, "--x"],
    ):
        assert MARK not in "".join(map(str, [cli(*words).out, cli(*words).err]))
    assert find_marks(tmp_path, Path(os.environ["HOME"])) == []


_ADDRESSES = (
    f"s3://key:{MARK}@bucket/t",
    f"s3a://key:{MARK}@bucket/t",
    f"s3:/key:{MARK}@bucket/t",
    f"file://user:{MARK}@host/t",
    f"FILE://user:{MARK}@host/t",
    f"https://user:{MARK}@host/t",
    f"https://user:{MARK}@{MARK}@host/t",
    f"https://user:{MARK}/{MARK}@host/t",
    f"https://user@corp.com:{MARK}@host/t",
    f"https://host/t?X-Amz-Signature={MARK}",
    f"abfss://c@account.dfs.core.windows.net/t?sv=1&sig={MARK}",
    f"abfss://c@account.dfs.core.windows.net/t*?sig={MARK}",
    f"gs://bucket/t?access_token={MARK}",
    f"s3://key:{MARK}@bucket/*",
    f"s3://key:{MARK}*@bucket/t",
    f"uc://user:{MARK}@host/main.sales.t",
)


@pytest.mark.parametrize("address", _ADDRESSES)
def test_no_run_repeats_a_credential_in_an_address(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in runs(tmp_path / "t"):
        ran = cli(words[0], address, *words[2:], "-vvv", "--debug", "--log-format", "json")
        assert ran.code != 0
        assert MARK not in ran.out + ran.err
        assert MARK not in cli(words[0], address, *words[2:], "-o", "json").out
    assert find_marks(tmp_path, Path(os.environ["HOME"])) == []


@pytest.mark.parametrize("address", _ADDRESSES)
def test_no_form_of_output_has_a_credential_of_an_address(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    build_table(tmp_path / "t")
    (tmp_path / "list").write_text(address)
    # Over three addresses, each format meets each way to select tables.
    selections = cycle(([address], [address, "none"], ["--tables-from", "list"]))
    first = _ADDRESSES.index(address) % 3
    for form, tables in zip(OutputFormat, islice(selections, first, None), strict=False):
        for words in (["optimize"], ["maintain", "--metrics", "m.prom"]):
            ran = cli(*words, *tables, "-o", form, "--report", "r.html", "--debug")
            assert ran.code in (1, 2)
            assert MARK not in ran.out + ran.err
            written = [Path(name).read_text("utf-8") for name in ("r.html", *words[2:])]
            assert not [text for text in written if MARK in text]
    (tmp_path / "list").unlink()
    for words in (
        ["vacuum", "t", "--yes", "--forget-clone", address],
        ["vacuum", "t", "--yes", "--also-keep-for", address],
        ["clone", "t", address],
        ["clone", address, "c"],
        ["generate-manifest", "t", "--output-root", address],
        ["config", address],
        ["optimize", "t", address, "--fail-fast"],
    ):
        for more in (["-vvv", "--debug"], ["-o", "json", "--log-format", "json"]):
            ran = cli(*words, *more)
            assert ran.code != 0, (words, ran.out)
            assert MARK not in ran.out + ran.err
    assert find_marks(tmp_path, Path(os.environ["HOME"])) == []


@pytest.mark.parametrize("at", ["127.0.0.1:9", f"user:{MARK}@127.0.0.1:9"])
@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("uc://main.sales.t", "host = 'http://{}'"),
        ("glue://sales.t", "endpoint-url = 'http://{}'\nregion = 'us-east-1'\nkey = 'x'"),
        ("hive://sales.t", "uris = 'thrift://{}'"),
    ],
)
def test_no_setting_of_a_catalog_is_shown(
    cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, address: str, at: str
) -> None:
    """Not even if it is wrong, or the catalog cannot be reached."""
    scheme = name.partition("://")[0]
    secrets = [it.key for it in KINDS[scheme].settings if it.is_secret]
    lines = [address.format(at), *(f"{key} = '{MARK}-{key}'" for key in secrets)]
    file = tmp_path / "p.toml"
    file.write_text("\n".join([f"[catalog.{scheme}]", *lines]))
    words = ("maintain", name, "--policy", str(file), "--report", str(tmp_path / "r.html"))
    for form in ([], ["-o", "json", "--log-format", "json"]):
        ran = cli(*words, "-vvv", "--debug", *form)
        assert ran.code != 0
        assert MARK not in ran.out + ran.err
    monkeypatch.setenv("DELTACTL_CONFIG", str(file))
    shown = cli("config")
    assert f"catalog.{scheme}" in shown.out
    assert MARK not in shown.out + shown.err
    assert {path for path, _ in find_marks(tmp_path)} <= {str(file)}


@pytest.mark.spark
def test_settings_for_spark_are_not_repeated(tmp_path: Path) -> None:
    """What keeps Spark from starting tells what was set, but not to what."""
    build_table(tmp_path / "t")
    ran = subprocess.run(  # a process of its own: Java stays where it was started
        [
            *(sys.executable, "-m", "deltactl", "optimize", str(tmp_path / "t"), "-vvv", "--debug"),
            *("--engine", "spark", "--master", "local[none]"),
            *("--spark-conf", f"spark.hadoop.fs.s3a.secret.key={MARK}"),
            *("--spark-conf", f"no-setting={MARK}"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **worker_environ()},
    )
    assert ran.returncode != 0
    assert "local[none]" in ran.stderr
    assert MARK not in ran.stdout + ran.stderr
    assert find_marks(tmp_path, Path(os.environ["HOME"])) == []


@pytest.mark.slow
@pytest.mark.parametrize("server", choose_servers("moto"), indirect=True)
def test_no_run_on_s3_writes_a_credential(
    cli: RunCli, server: ObjectServer, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keys that are used, and options that the library refuses, one at a time."""
    store = open_store(root, server.options)
    builder = TableBuilder(store, [Column("id")])
    builder.append(*[[{"id": number}] for number in range(3)])
    secret, token = f"{MARK}-secret", f"{MARK}-token"
    used = {**S3_ENVIRON, "AWS_ENDPOINT_URL": server.endpoint, "AWS_SECRET_ACCESS_KEY": secret}
    for name, value in {**used, "AWS_SESSION_TOKEN": token}.items():
        monkeypatch.setenv(name, value)
    said = []
    for words in (
        ["optimize"],
        ["checkpoint"],
        ["vacuum", "--yes"],
        ["generate-manifest"],
        ["check"],
    ):
        ran = cli(words[0], root, *words[1:], "-vvv", "--debug")
        assert ran.code == 0, ran.err
        said += [ran.out, ran.err]
    odd = {name: f"{MARK}-{name}" for name in _OPTIONS}
    odd |= {name: form % f"{MARK}-{name}" for name, form in _NESTED.items()}
    for name, value in odd.items():
        ran = cli("describe-detail", root, "--storage-option", f"{name}={value}", "--debug")
        said += [ran.out, ran.err]
    assert [text for text in said if MARK in text] == []
    names = [name for batch in store.walk() for name in batch]
    assert any("_deltactl" in name for name in names)
    assert [name for name in names if MARK.encode() in store.read(name)] == []
    assert json.loads(store.read("_delta_log/00000000000000000002.json").splitlines()[0])
