"""Send requests to the REST API of a catalog: timeouts, retries, and what an answer means."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from deltactl.errors import (
    AccessDeniedError,
    SafetyError,
    StorageError,
    UnreachableError,
    UsageError,
)
from deltactl.storage.secrets import hide_secrets, note_secrets

Headers = Callable[[], Mapping[str, str]]
"""Returns the headers that authorize a request."""

_TIMEOUT: Final = urllib3.Timeout(connect=10.0, read=60.0)
_CONNECTION: Final = re.compile(r"^HTTPS?Connection\([^)]*\): ")
_BUSY: Final = (429, 500, 502, 503, 504)
_ATTEMPTS: Final = 5
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_LONGEST_MESSAGE: Final = 300
_JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its status, its JSON (``None`` if it is none), and the time of the server."""

    status: int
    body: Any
    server_seconds: float

    @property
    def is_ok(self) -> bool:
        """Return whether the request succeeded. A redirection did nothing: none is followed."""
        return self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def message(self) -> str:
        """Return the server's reason, without secrets."""
        body = self.body if isinstance(self.body, dict) else {}
        error = body["error"] if isinstance(body.get("error"), dict) else body
        text = error.get("message") or error.get("error_description") or f"HTTP {self.status}"
        return hide_secrets(str(text).strip())[:_LONGEST_MESSAGE]

    @property
    def error_type(self) -> str:
        """Return the kind of the error, if the server says it."""
        error = self.body.get("error") if isinstance(self.body, dict) else None
        return str(error.get("type")) if isinstance(error, dict) else ""

    @property
    def has_error_body(self) -> bool:
        """Return whether the API answered, and not a server that does not know the address."""
        return isinstance(self.body, dict) and bool(self.body)


class HttpClient:
    """Requests below one address. Threads share the connections."""

    def __init__(self, base: str, headers: Headers, *, allow_http: bool = False) -> None:
        """Send no request yet.

        Raises:
            UsageError: the address is not valid.
            SafetyError: it is http, on another machine, and not allowed.
        """
        ensure_safe(base, allow_http=allow_http)
        self.base, self._headers = base.rstrip("/"), headers
        self._pool = _pool(self.base)

    def get(self, path: str, **query: str | int | None) -> Answer:
        """Send a GET request; parameters that are ``None`` are left out."""
        given = {key: value for key, value in query.items() if value is not None}
        return self.request("GET", f"{path}?{urlencode(given)}" if given else path)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send a POST request that may be sent twice."""
        return self.request("POST", path, json.dumps(body).encode(), _JSON)

    def post_once(self, path: str, body: Mapping[str, Any]) -> Answer:
        """Send a POST request once, and return any answer.

        Raises:
            StorageError: no answer; the server may have done what was asked.
        """
        return self._send("POST", path, json.dumps(body).encode(), _JSON, retries=False)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request; retry if the server is busy or cannot be reached.

        Raises:
            StorageError: no answer, or the server stayed busy or failed.
        """
        found = self._send(method, path, body, headers)
        if found.status in _BUSY:
            raise StorageError(
                f"the catalog at {self.base} failed {_ATTEMPTS} times (HTTP {found.status}): "
                f"{found.message}",
                hint="Rerun later.",
            )
        return found

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        **options: Any,
    ) -> Answer:
        try:
            answer = self._pool.request(
                method,
                self.base + path,
                body=body,
                headers={"Accept": "application/json", **self._headers(), **(headers or {})},
                redirect=False,
                **options,
            )
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            is_unreachable = isinstance(reason, urllib3.exceptions.ConnectTimeoutError)
            text = _CONNECTION.sub("", hide_secrets(str((reason.args or (reason,))[-1])))
            raise (UnreachableError if is_unreachable else StorageError)(
                f"the catalog at {self.base} cannot be reached: {text}",
                hint="Check the address of the catalog and the network, then rerun.",
            ) from None
        return Answer(answer.status, _parse(answer.data), _server_seconds(answer.headers))


def allows_http(settings: Mapping[str, str]) -> bool:
    """Return whether the settings of a catalog allow http to other machines."""
    return settings.get("allow-http", "").lower() in ("true", "1", "yes", "on")


def ensure_safe(address: str, *, allow_http: bool) -> None:
    """Refuse an address to which a token would be sent in plain text.

    Raises:
        UsageError: it is not the address of a server.
        SafetyError: it is http, on another machine, and not allowed.
    """
    parts = urlsplit(address)
    is_plain = "@" not in parts.netloc and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise UsageError(
            f"{parts.scheme}://{parts.hostname or ''} is not the address of a catalog, or has more "
            "than that",
            hint="Write https://HOST, without a user and without what follows a question mark.",
        )
    if parts.scheme == "http" and parts.hostname not in _LOCAL and not allow_http:
        raise SafetyError(
            f"the catalog at http://{parts.hostname} would get tokens without encryption",
            hint="Use https://. For a network that nobody else can read, set allow-http = true in "
            "the section of the catalog in deltactl.toml.",
        )


def bearer(token: str) -> dict[str, str]:
    """Return the headers for a token, which no message will contain."""
    note_secrets([token])
    if not token.isascii() or not token.isprintable():
        raise AccessDeniedError(
            "the token of the catalog has characters that are not valid in a token",
            hint="Set the token again, without line breaks.",
        )
    return {"Authorization": f"Bearer {token}"}


def _pool(base: str) -> urllib3.PoolManager:
    retries = urllib3.Retry(
        total=_ATTEMPTS - 1,
        status_forcelist=_BUSY,
        allowed_methods=None,
        backoff_factor=0.2,
        backoff_max=10,
        backoff_jitter=0.5,
        raise_on_status=False,
    )
    parts = urlsplit(base)
    proxy = getproxies().get(parts.scheme)
    if proxy and not proxy_bypass(parts.hostname or ""):
        return urllib3.ProxyManager(proxy, retries=retries, timeout=_TIMEOUT)
    return urllib3.PoolManager(retries=retries, timeout=_TIMEOUT)


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def _server_seconds(headers: Mapping[str, str]) -> float:
    try:
        return parsedate_to_datetime(headers["Date"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return time.time()
