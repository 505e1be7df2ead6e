"""Authorize requests to Unity Catalog: a token, OAuth for machines, or the SDK of Databricks.

Source: Databricks, "Unified client authentication", "OAuth machine-to-machine".
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from configparser import ConfigParser, Error
from importlib.util import find_spec
from typing import Any, Final

import urllib3

from deltactl.catalog.http import Headers, HttpClient, bearer
from deltactl.catalog.settings import Found
from deltactl.errors import AccessDeniedError, UsageError
from deltactl.storage.secrets import note_secrets

_MARGIN_SECONDS: Final = 60.0
_OF_DATABRICKS: Final = (".databricks.com", ".azuredatabricks.net", ".databricks.azure.us",
                         ".databricks.azure.cn")  # fmt: skip
_KEYS: Final = {
    key: key.replace("_", "-") for key in ("host", "token", "client_id", "client_secret")
}


def read_profile(found: Mapping[str, Found], environ: Mapping[str, str]) -> dict[str, Found]:
    """Return the settings of a profile in ``~/.databrickscfg``, or in another file.

    Without the name of a profile, the file counts only if there is no host: then [DEFAULT].

    Raises:
        UsageError: the file cannot be understood, or does not have the profile.
    """
    named = found.get("profile")
    if named is None and "host" in found:
        return {}
    asked = found.get("config-file")
    name = asked.value if asked else "~/.databrickscfg"
    path = os.path.expanduser(name)  # noqa: PTH111 - the user may have no home directory
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path, "utf-8")
    except (Error, OSError, UnicodeError) as error:
        # The message of the parser contains lines of the file.
        raise UsageError(f"{path} cannot be read: {type(error).__name__}") from None
    section = "DEFAULT" if named is None else named.value
    if named is not None and section not in (*parser.sections(), "DEFAULT"):
        hint = f"Correct the name in {named.place}."
        raise UsageError(f"{path} has no profile {section!r}", hint=hint)
    values = parser[section]
    return {
        ours: Found(values[theirs], f"{path}: {section}.{theirs}")
        for theirs, ours in _KEYS.items()
        if values.get(theirs)
    }


def choose_headers(address: str, settings: Mapping[str, str], *, allow_http: bool) -> Headers:
    """Return what authorizes requests; without any setting, nothing."""
    if token := settings.get("token"):
        headers = bearer(token)
        return lambda: headers
    client_id, secret = settings.get("client-id"), settings.get("client-secret")
    if client_id and secret:
        http = HttpClient(address, dict, allow_http=allow_http)
        return MachineToken(http, client_id, secret).headers
    if address.endswith(_OF_DATABRICKS) and find_spec("databricks") is not None:
        return _sdk_headers(address, settings.get("profile"))
    return dict


class MachineToken:
    """A token for a service principal, fetched anew before it ends."""

    def __init__(self, http: HttpClient, client_id: str, secret: str) -> None:
        """Send no request yet."""
        note_secrets([secret])
        self._http, self._id, self._secret = http, client_id, secret
        self._token, self._ends = "", 0.0
        self._lock = threading.Lock()

    def headers(self) -> Mapping[str, str]:
        """Return the headers of a request.

        Raises:
            AccessDeniedError: the id or the secret is wrong.
        """
        with self._lock:
            if time.monotonic() > self._ends:
                self._fetch()
            return bearer(self._token)

    def _fetch(self) -> None:
        basic = urllib3.make_headers(basic_auth=f"{self._id}:{self._secret}")
        answer = self._http.request(
            "POST",
            "/oidc/v1/token",
            b"grant_type=client_credentials&scope=all-apis",
            {**basic, "Content-Type": "application/x-www-form-urlencoded"},
        )
        found: Any = answer.body if isinstance(answer.body, dict) else {}
        lifetime = str(found.get("expires_in") or 0)
        if not answer.is_ok or not found.get("access_token") or not lifetime.isdecimal():
            raise AccessDeniedError(
                f"{self._http.base} gave no token to the client {self._id}: {answer.message}",
                hint="Check DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET.",
            )
        self._token = str(found["access_token"])
        self._ends = time.monotonic() + int(lifetime) - _MARGIN_SECONDS


def _sdk_headers(address: str, profile: str | None) -> Headers:
    from databricks.sdk.core import Config

    try:
        # Without a limit it tries for five minutes to reach a host that does not answer.
        config = Config(host=address, profile=profile, retry_timeout_seconds=30)
    except ValueError as error:
        raise AccessDeniedError(
            f"there are no credentials for {address}",
            hint="Set DATABRICKS_TOKEN, or DATABRICKS_CLIENT_ID and DATABRICKS_CLIENT_SECRET.",
        ) from error

    def headers() -> Mapping[str, str]:
        found: Mapping[str, str] = config.authenticate()
        note_secrets(value.partition(" ")[2] for value in found.values())
        return found

    return headers
