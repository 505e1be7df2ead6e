"""Connect to object stores. The process keeps one connection for each place and credentials.

The caches of fsspec are turned off, for two reasons. With an outdated listing, commits lose against
other writers. And fsspec's cache of instances keeps credentials that deltactl cannot remove.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from fsspec.config import apply_config

from deltactl.errors import DeltactlError, StorageError
from deltactl.storage.network.pacing import RATE_OPTION, Pacer, parse_rate
from deltactl.storage.network.retry import RetryPolicy
from deltactl.storage.network.traffic import (
    Traffic,
    azure_transport,
    gcs_session_settings,
    s3_http_session,
    s3_session,
)
from deltactl.storage.objects.services import CommonService
from deltactl.storage.secrets import load_nested

# Smaller objects (checkpoints, small data files) are read in one piece, others in pieces of this
# size.
_AZURE_PIECE_BYTES: Final = 64 << 20

_VARIABLES: Final = ("AWS_", "AZURE_", "FSSPEC_", "GCSFS_", "GOOGLE_", "STORAGE_EMULATOR_HOST")
_CONNECTIONS: Final = 32
# Without a limit, gcsfs waits forever, and the client of Azure waits for five minutes.
_CONNECT_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 60.0

_services: dict[tuple[object, ...], CommonService] = {}
_lock = threading.Lock()


def find_service(package: str, uri: str, options: Mapping[str, str]) -> CommonService:
    """Return the service of an address; tables in the same place share a connection.

    Raises:
        UsageError: an option is not valid.
        StorageError: the library cannot connect with these options.
        ImportError: the Python package of the service is not installed.
    """
    settings = {key: _typed(value) for key, value in options.items()}
    rate = parse_rate(settings.pop(RATE_OPTION, None))
    # The key contains the process, because a forked process must not share its parent's event loop.
    place = uri.partition("://")[2].partition("/")[0]
    shown = sorted((name, repr(value)) for name, value in settings.items())
    scheme = uri.partition("://")[0]
    opened_with = (os.getpid(), package, tuple(shown), _environment())
    key = (*opened_with, place, rate)
    with _lock:
        if key not in _services:
            try:
                _services[key] = _CONNECT[package](uri, settings, Traffic(Pacer(rate)))
                _services[key].opened_with = opened_with
            except (ImportError, DeltactlError):
                raise
            except Exception as error:
                # The library's message may contain an option: show only the type of the error.
                raise StorageError(
                    f"cannot connect to {scheme}://{place}: {type(error).__name__}",
                    hint="Check the options given with --storage-option.",
                ) from None
        return _services[key]


def _environment() -> int:
    """Return a hash of the environment variables from which the libraries read credentials."""
    return hash(frozenset(item for item in os.environ.items() if item[0].startswith(_VARIABLES)))


def _connect_s3(uri: str, settings: dict[str, Any], traffic: Traffic) -> CommonService:
    from deltactl.storage.objects.s3 import S3Files, S3Service

    settings = apply_config(S3Files, settings)
    # Other programs for Delta tables read AWS_REGION, botocore only AWS_DEFAULT_REGION.
    region = settings.pop("region", None) or os.environ.get("AWS_REGION")
    if region:
        nested = settings.get("client_kwargs") or {}
        settings["client_kwargs"] = {"region_name": region, **nested}
    settings["config_kwargs"] = {
        "max_pool_connections": _CONNECTIONS,
        **(settings.get("config_kwargs") or {}),
        "retries": {"max_attempts": 0},
        "http_session_cls": s3_http_session(),
    }
    settings["session"] = s3_session(settings.pop("profile", None), traffic)
    return S3Service(S3Files(**{**settings, **_NO_CACHES}))


def _connect_gcs(uri: str, settings: dict[str, Any], traffic: Traffic) -> CommonService:
    from aiohttp import ClientTimeout

    # The class that gcsfs exports would request the kind of each bucket over gRPC.
    from gcsfs.core import GCSFileSystem

    from deltactl.storage.objects.gcs import GcsService

    settings = apply_config(GCSFileSystem, settings)
    settings.setdefault(
        "requests_timeout",
        ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS),
    )
    nested = {**settings.pop("session_kwargs", {}), **gcs_session_settings(traffic)}
    file_system = GCSFileSystem(**{**settings, **_NO_CACHES}, session_kwargs=nested)
    # gcsfs tries each request six times; this cannot be changed.
    return GcsService(file_system, RetryPolicy(attempts=2))


def _connect_azure(uri: str, settings: dict[str, Any], traffic: Traffic) -> CommonService:
    from adlfs import AzureBlobFileSystem
    from azure.storage.blob.aio import BlobServiceClient

    from deltactl.storage.objects.azure import AzureService, split_azure_uri

    settings = apply_config(AzureBlobFileSystem, settings)
    account = split_azure_uri(uri)[0]
    if account is not None:
        settings.setdefault("account_name", account)
    file_system = AzureBlobFileSystem(**{**settings, **_NO_CACHES})
    client = file_system.service_client
    file_system.service_client = BlobServiceClient(
        client.url,
        credential=client.credential,
        transport=azure_transport(traffic, _CONNECT_SECONDS, _SILENCE_SECONDS),
        max_single_get_size=_AZURE_PIECE_BYTES,
        max_chunk_get_size=_AZURE_PIECE_BYTES,
        retry_total=0,
    )
    return AzureService(file_system)


_NO_CACHES: Final = {"use_listings_cache": False, "skip_instance_cache": True}
_CONNECT: Final[Mapping[str, Callable[[str, dict[str, Any], Traffic], CommonService]]] = {
    "s3fs": _connect_s3,
    "gcsfs": _connect_gcs,
    "adlfs": _connect_azure,
}


def _typed(value: str) -> Any:
    """Return an option in the type that the libraries expect: bool, JSON object or string."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    return load_nested(value)
