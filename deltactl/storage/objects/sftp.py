"""Keep tables on SFTP servers whose rename never replaces a file, as OpenSSH's does.

OpenSSH creates a hard link to rename a file. On a file system without hard links, it first looks
for the new name and then renames: two writers could win then.

Source: draft-ietf-secsh-filexfer-02, section 6.5; OpenSSH, ``PROTOCOL`` and ``sftp-server.c``.
"""

from __future__ import annotations

import os
from typing import Any

import paramiko
from fsspec.implementations.sftp import SFTPFileSystem

from deltactl.storage.network.traffic import Traffic
from deltactl.storage.objects.renames import RenamingService, connect_settings
from deltactl.storage.objects.services import ObjectService


def connect(uri: str, settings: dict[str, Any], traffic: Traffic) -> ObjectService:
    """Connect to a server; its requests are not counted."""
    arguments = connect_settings(SFTPFileSystem, uri, settings)
    # By default, fsspec accepts the key of any server.
    arguments.setdefault("host_key_policy", KnownHosts())
    return SftpService(SFTPFileSystem(**arguments), uri)


class KnownHosts(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Accept the servers in ``~/.ssh/known_hosts``."""

    def missing_host_key(
        self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey
    ) -> None:
        """Raise an error for any other key."""
        path = os.path.expanduser("~/.ssh/known_hosts")
        if not (os.path.exists(path) and paramiko.HostKeys(path).check(hostname, key)):
            raise paramiko.SSHException(f"the key of {hostname} is not in {path}")


class SftpService(RenamingService):
    """Files on an SFTP server."""

    def rename_new(self, old: str, new: str) -> None:
        """Rename with the request of the protocol, which fails if there is a file ``new``."""
        try:
            self._fs.ftp.rename(old, new)
        except OSError as error:
            # The protocol has one error for many causes.
            if self.stat(new) is not None:
                raise FileExistsError(new) from error
            raise

    def rename_over(self, old: str, new: str) -> None:
        """Rename with the extension of OpenSSH that replaces files."""
        self._fs.ftp.posix_rename(old, new)
