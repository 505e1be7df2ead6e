"""List the kinds of storage that fsspec opens: one row for each.

To add a kind, add a row, and a module with a function ``connect`` if the kind commits. This module
imports no large package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltactl.storage.names import parse_scheme


@dataclass(frozen=True, slots=True)
class Provider:
    """A kind of storage.

    Attributes:
        package: the Python package that it needs.
        oldest: the oldest version of the package, as in pyproject.toml; executors of Spark are
            checked for it.
        schemes: the schemes of its addresses.
        module: the module below ``objects`` whose ``connect(uri, settings, traffic)`` returns a
            service. Its class has the requests that fsspec does not promise: put-if-absent, copies
            inside the service, versions of objects.
        variables: prefixes of the environment variables from which the package reads credentials
            and endpoints.
        documented_hosts: hosts of services that document put-if-absent; a name that begins with a
            dot stands for all hosts below it. Other hosts are tested before the first commit.
        uses_dynamodb: whether writers of its tables can agree on commits in DynamoDB.
        reads_only: whether deltactl refuses all changes, because there is no put-if-absent.
    """

    package: str
    oldest: str
    schemes: tuple[str, ...]
    module: str
    variables: tuple[str, ...]
    documented_hosts: tuple[str, ...] = ()
    uses_dynamodb: bool = False
    reads_only: bool = False


S3: Final = Provider(
    package="s3fs",
    oldest="2026.6",
    schemes=("s3", "s3a"),
    module="s3",
    variables=("AWS_", "FSSPEC_"),
    documented_hosts=(".amazonaws.com", ".amazonaws.com.cn"),
    uses_dynamodb=True,
)
GCS: Final = Provider(
    package="gcsfs",
    oldest="2026.6",
    schemes=("gs", "gcs"),
    module="gcs",
    variables=("FSSPEC_", "GCSFS_", "GOOGLE_", "STORAGE_EMULATOR_HOST"),
    documented_hosts=("storage.googleapis.com", "storage.mtls.googleapis.com"),
)
AZURE: Final = Provider(
    package="adlfs",
    oldest="2024.12",  # its releases do not follow the numbers of fsspec
    schemes=("az", "abfs", "abfss"),
    module="azure",
    variables=("AZURE_", "FSSPEC_"),
    documented_hosts=(".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net"),
)

MEMORY: Final = Provider(
    package="fsspec", oldest="2026.6", schemes=("memory",), module="memory", variables=()
)
SFTP: Final = Provider(
    package="paramiko", oldest="3.4", schemes=("sftp",), module="sftp", variables=("HOME", "SSH_")
)
WEBHDFS: Final = Provider(
    package="requests", oldest="2.31", schemes=("webhdfs",), module="webhdfs", variables=("KRB5",)
)

PROVIDERS: Final[dict[str, Provider]] = {
    scheme: provider
    for provider in (S3, GCS, AZURE, MEMORY, SFTP, WEBHDFS)
    for scheme in provider.schemes
}
"""The row of each scheme."""


def other_provider(scheme: str) -> Provider:
    """Return a row for a scheme that only fsspec knows."""
    return Provider(
        package="", oldest="", schemes=(scheme,), module="others", variables=("",), reads_only=True
    )


def provider_of(uri: str) -> Provider | None:
    """Return the row of an address; ``None`` for local files and unknown schemes."""
    return PROVIDERS.get(parse_scheme(uri) or "")
