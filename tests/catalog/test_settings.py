from pathlib import Path

import pytest

from deltactl.catalog.names import parse_name
from deltactl.catalog.settings import find_settings, options_for_workers, without_settings
from deltactl.errors import UsageError

NAME = parse_name("uc://main.sales.orders")


def values(options: dict[str, str], environ: dict[str, str]) -> dict[str, str]:
    return {key: found.value for key, found in find_settings(NAME, options, environ).items()}


@pytest.mark.parametrize(
    "variable", ["DATABRICKS_HOST", "DATABRICKS_WORKSPACE_URL", "UNITY_WORKSPACE_URL"]
)
def test_each_variable_and_its_option(variable: str) -> None:
    assert values({}, {variable: "https://h"}) == {"host": "https://h"}
    assert values({variable.lower(): "https://h"}, {variable: "https://x"}) == {"host": "https://h"}


def test_sources_in_their_order() -> None:
    options = {
        "catalog.main.host": "https://h",
        "catalog.main.token": "env:MINE",
        "catalog.uc.client-id": "id",
    }
    found = find_settings(NAME, options, {"MINE": "t0ken", "DATABRICKS_CLIENT_ID": "other"})
    assert {key: (it.value, it.place) for key, it in found.items()} == {
        "host": ("https://h", "catalog.main.host"),
        "token": ("t0ken", "catalog.main.token"),
        "client-id": ("other", "DATABRICKS_CLIENT_ID"),
    }
    with pytest.raises(UsageError, match="MINE, which is not set"):
        find_settings(NAME, options, {})


def test_a_token_goes_to_the_host_of_its_own_source_only() -> None:
    options = {"catalog.uc.host": "https://theirs", "catalog.uc.token": "of-theirs"}
    assert values(options, {"DATABRICKS_HOST": "https://ours"}) == {"host": "https://ours"}
    same = {"host": "https://theirs/", "token": "of-theirs"}
    assert values(options, {"DATABRICKS_HOST": "https://theirs/"}) == same


def test_profiles(tmp_path: Path) -> None:
    file = tmp_path / "cfg"
    file.write_text(
        "[DEFAULT]\nhost = https://d\ntoken = td%\n[work]\nhost = https://w\ntoken = tw\n"
    )
    environ = {"DATABRICKS_CONFIG_FILE": str(file)}
    first = {"config-file": str(file)}
    assert values({}, environ) == {**first, "host": "https://d", "token": "td%"}
    chosen = values({}, {**environ, "DATABRICKS_CONFIG_PROFILE": "work"})
    assert chosen == {**first, "profile": "work", "host": "https://w", "token": "tw"}
    # The token of the profile is not sent to another host, and a host needs no profile.
    elsewhere = {**environ, "DATABRICKS_HOST": "https://x"}
    assert values({}, elsewhere) == {**first, "host": "https://x"}
    named = {**elsewhere, "DATABRICKS_CONFIG_PROFILE": "work"}
    assert "token" not in values({}, named)
    with pytest.raises(UsageError, match="no profile 'gone'"):
        values({}, {**environ, "DATABRICKS_CONFIG_PROFILE": "gone"})


def test_an_invalid_file_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "cfg"
    file.write_text("[DEFAULT]\nplanted-secret\n")
    with pytest.raises(UsageError) as raised:
        values({}, {"DATABRICKS_CONFIG_FILE": str(file)})
    assert "planted" not in raised.value.message


def test_what_workers_and_storage_get() -> None:
    options = {
        "databricks_host": "https://h", "databricks_token": "t", "region": "eu",
        "catalog.uc.client-secret": "s",
    }  # fmt: skip
    assert without_settings(options) == {"region": "eu"}
    found = find_settings(NAME, options, {})
    assert options_for_workers(NAME, found) == {"databricks_host": "https://h"}
