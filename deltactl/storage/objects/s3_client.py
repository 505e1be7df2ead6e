"""The client of Amazon S3: botocore's, with the settings and the errors of s3fs.

s3fs sends its requests with aiobotocore and aiohttp. Their import takes 0.1 to 0.2 s, and they have
no advantage here, because a thread waits for the answer to each request. botocore is installed with
s3fs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

from deltactl.storage.errors import service_code

# The timeouts (seconds) are those of s3fs. Only `RetryPolicy` retries.
_CONFIG: Final = {"connect_timeout": 5, "read_timeout": 15, "retries": {"max_attempts": 0}}
# Settings of aiohttp, which users can give to s3fs. botocore does not know them.
_FOREIGN: Final = ("connector_args", "http_session_cls", "load_executor")
_DENIED_CODES: Final = frozenset({
    "ExpiredToken", "IllegalLocationConstraintException", "InvalidObjectState", "InvalidToken",
})  # fmt: skip


class S3Client:
    """Sends requests from any thread. ``connections`` limits how many run at the same time."""

    def __init__(self, session: Any, settings: Mapping[str, Any], connections: int) -> None:
        """Send with clients of a botocore session, with the settings of an s3fs file system.

        Settings for the files and caches of s3fs are ignored.

        Raises:
            KeyError: the key or the secret is given by two names.
        """
        for name, other in (("key", "username"), ("secret", "password")):
            if settings.get(name) and settings.get(other):
                raise KeyError(f"supply {name} or {other}, not both")
        self.key = settings.get("username") or settings.get("key")
        self.secret = settings.get("password") or settings.get("secret")
        self.token = settings.get("token")
        # `secret_values` searches for secrets in attributes of these names.
        self.client_kwargs = dict(settings.get("client_kwargs") or {})
        self.s3_additional_kwargs = dict(settings.get("s3_additional_kwargs") or {})
        config: dict[str, Any] = {**_CONFIG, "max_pool_connections": connections}
        config |= settings.get("config_kwargs") or {}
        self.config_kwargs = {name: config[name] for name in config if name not in _FOREIGN}
        self._settings, self._session = settings, session
        self._slots = threading.BoundedSemaphore(int(config["max_pool_connections"]))
        self._lock = threading.Lock()
        self._client: Any = None

    @property
    def endpoint(self) -> str:
        """Return the client's endpoint, from options, variables and configuration files."""
        return str(self._connect().meta.endpoint_url)

    def call(self, operation: str, **request: Any) -> Any:
        """Send a request once, and return the answer.

        Raises:
            OSError: the service refused the request. A subclass shows the reason if there is one
                for it.
        """
        with self.answer(operation, **request) as answer:
            return answer

    @contextmanager
    def answer(self, operation: str, **request: Any) -> Iterator[Any]:
        """Send a request once, and yield the answer. Its body may be read inside the block.

        Raises:
            OSError: the service refused the request. A subclass shows the reason if there is one
                for it.
        """
        client = self._connect()
        request = {**self._additions(client, operation), **request}
        with self._slots:
            try:
                answer = getattr(client, operation)(**request)
            except Exception as error:
                refusal = _refusal(error)
                if refusal is None:
                    raise
                raise refusal from error
            try:
                yield answer
            finally:
                body = answer.get("Body")
                if body is not None:
                    body.close()

    def _additions(self, client: Any, operation: str) -> dict[str, Any]:
        """Return the parameters from the settings that this operation accepts."""
        additions = dict(self.s3_additional_kwargs)
        if self._settings.get("requester_pays"):
            additions["RequestPayer"] = "requester"
        if not additions:
            return {}
        name = client.meta.method_to_api_mapping[operation]
        known = client.meta.service_model.operation_model(name).input_shape.members
        return {key: value for key, value in additions.items() if key in known}

    def _connect(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._create_client()
        return self._client

    def _create_client(self) -> Any:
        from botocore import UNSIGNED
        from botocore.config import Config

        settings, config = self._settings, dict(self.config_kwargs)
        credentials = {
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_session_token": self.token,
        }
        given = {
            **credentials,
            "endpoint_url": settings.get("endpoint_url"),
            "use_ssl": settings.get("use_ssl", True),
            **self.client_kwargs,
        }
        if settings.get("anon"):
            given = {name: value for name, value in given.items() if name not in credentials}
            config["signature_version"] = UNSIGNED
        return self._session.create_client("s3", config=Config(**config), **given)


def _refusal(error: Exception) -> OSError | None:
    """Return the OSError whose meaning is nearest to an answer of the service."""
    response = getattr(error, "response", None)
    if not isinstance(response, Mapping):
        return None
    code = service_code(error)
    status = (response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
    message = (response.get("Error") or {}).get("Message") or str(error)
    if HTTPStatus.NOT_FOUND in (status, _number(code)):
        return FileNotFoundError(message)
    denied = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
    if status in denied or _number(code) in denied or code in _DENIED_CODES:
        return PermissionError(message)
    return OSError(message)


def _number(code: str) -> int | None:
    return int(code) if code.isdigit() else None


def fsspec_settings(*protocols: str) -> dict[str, Any]:
    """Return the settings for protocols in fsspec's configuration files and variables."""
    folder = os.environ.get("FSSPEC_CONFIG_DIR") or os.path.expanduser("~/.config/fsspec")
    if not os.path.isdir(folder) and not any(name.startswith("FSSPEC_") for name in os.environ):
        return {}  # the import of fsspec takes 0.05 s
    from fsspec.config import conf

    found: dict[str, Any] = {}
    for protocol in protocols:
        found |= conf.get(protocol) or {}
    return found
