"""List the kinds of storage that fsspec opens: one row for each.

To add a kind, add a row, and a module with a function ``connect`` if the kind commits. This module
imports no large package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deltactl.storage.names import parse_scheme


@dataclass(frozen=True, slots=True)
class Access:
    """What messages say about credentials and permissions.

    Attributes:
        sources: where the package looks for credentials.
        how_to_give: what to do if there are none.
        how_to_renew: what to do if they have expired.
        to_list, to_read, to_write, to_delete: the permissions that requests need.
        to_list_old, to_read_old, to_restore: the same for old versions; empty if it needs no other
            permission than a listing, a read or a write.
        more: what else can be the reason for a denied request.
    """

    sources: str = "the storage options"
    how_to_give: str = "Give credentials in the storage options."
    how_to_renew: str = "Give new credentials in the storage options."
    to_list: str = "the permission to list directories"
    to_read: str = "the permission to read files"
    to_write: str = "the permission to write files"
    to_delete: str = "the permission to delete files"
    to_list_old: str = ""
    to_read_old: str = ""
    to_restore: str = ""
    more: str = ""

    def allow(self, verb: str) -> str:
        """Return the hint after a denied request to ``verb`` a file."""
        right = {
            "list": self.to_list,
            "list the versions of": self.to_list_old or self.to_list,
            "look up": self.to_read,
            "open": self.to_read,
            "read": self.to_read,
            "read an old version of": self.to_read_old or self.to_read,
            "restore": self.to_restore or self.to_write,
            "delete": self.to_delete,
        }.get(verb, self.to_write)
        return f"Give the identity of these credentials {right}{self.more}."


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
        access: what messages say about credentials and permissions.
        uses_dynamodb: whether writers of its tables can agree on commits in DynamoDB.
        reads_only: whether deltactl refuses all changes, because there is no put-if-absent.
    """

    package: str
    oldest: str
    schemes: tuple[str, ...]
    module: str
    variables: tuple[str, ...]
    documented_hosts: tuple[str, ...] = ()
    access: Access = Access()
    uses_dynamodb: bool = False
    reads_only: bool = False


S3: Final = Provider(
    package="s3fs",
    oldest="2026.6",
    schemes=("s3", "s3a"),
    module="s3",
    variables=("AWS_", "FSSPEC_"),
    documented_hosts=(".amazonaws.com", ".amazonaws.com.cn"),
    access=Access(
        sources="the storage options, AWS_ACCESS_KEY_ID, the profile AWS_PROFILE in ~/.aws, and "
        "the role of this machine or container",
        how_to_give="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE. For a public "
        "bucket, give the storage option anon=true.",
        how_to_renew="Run `aws sso login`, or set a new AWS_SESSION_TOKEN.",
        to_list="s3:ListBucket on the bucket",
        to_read="s3:GetObject on the files of the table",
        to_write="s3:PutObject on the files of the table",
        to_delete="s3:DeleteObject on the files of the table",
        to_list_old="s3:ListBucketVersions on the bucket",
        to_read_old="s3:GetObjectVersion on the files of the table",
        to_restore="s3:DeleteObjectVersion on the files of the table",
        more=". For a requester-pays bucket, give the storage option requester_pays=true",
    ),
    uses_dynamodb=True,
)
GCS: Final = Provider(
    package="gcsfs",
    oldest="2026.6",
    schemes=("gs", "gcs"),
    module="gcs",
    variables=("FSSPEC_", "GCSFS_", "GOOGLE_", "STORAGE_EMULATOR_HOST"),
    documented_hosts=("storage.googleapis.com", "storage.mtls.googleapis.com"),
    access=Access(
        sources="the storage option token, GOOGLE_APPLICATION_CREDENTIALS, the login of gcloud, "
        "and the service account of this machine",
        how_to_give="Run `gcloud auth application-default login`, or set "
        "GOOGLE_APPLICATION_CREDENTIALS to the key file of a service account.",
        how_to_renew="Run `gcloud auth application-default login` again, or give a new token.",
        to_list="storage.objects.list on the bucket",
        to_read="storage.objects.get on the bucket",
        to_write="storage.objects.create and storage.objects.delete on the bucket",
        to_delete="storage.objects.delete on the bucket",
    ),
)
AZURE: Final = Provider(
    package="adlfs",
    oldest="2024.12",  # its releases do not follow the numbers of fsspec
    schemes=("az", "abfs", "abfss"),
    module="azure",
    variables=("AZURE_", "FSSPEC_"),
    documented_hosts=(".core.windows.net", ".core.chinacloudapi.cn", ".core.usgovcloudapi.net"),
    access=Access(
        sources="the storage options, AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_ACCOUNT_KEY, "
        "AZURE_STORAGE_SAS_TOKEN, AZURE_CLIENT_ID, the managed identity of this machine, and the "
        "login of az",
        how_to_give="Run `az login`, or set AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN. "
        "For a public container, give the storage option anon=true.",
        how_to_renew="Run `az login` again, or give a new SAS token.",
        to_list="the role Storage Blob Data Reader on the container",
        to_read="the role Storage Blob Data Reader on the container",
        to_write="the role Storage Blob Data Contributor on the container",
        to_delete="the role Storage Blob Data Contributor on the container",
        more=", and check the firewall of the account",
    ),
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
    # Any variable counts: it is not known which ones the file system reads.
    return Provider(
        package="", oldest="", schemes=(scheme,), module="others", variables=("",), reads_only=True
    )


def provider_of(uri: str) -> Provider | None:
    """Return the row of an address; ``None`` for local files and unknown schemes."""
    return PROVIDERS.get(parse_scheme(uri) or "")


def may_use_dynamodb(uri: str) -> bool:
    """Return whether writers of a table can agree on commits in DynamoDB."""
    provider = provider_of(uri)
    return provider is not None and provider.uses_dynamodb
