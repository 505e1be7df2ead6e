"""Keep tables on HDFS, through WebHDFS: its RENAME never replaces a file.

Source: Hadoop, "WebHDFS REST API"; ``FileSystem.rename`` in the specification of Hadoop.
"""

from __future__ import annotations

from typing import Any

from fsspec.implementations.webhdfs import WebHDFS

from deltactl.storage.network.traffic import Traffic
from deltactl.storage.objects.renames import RenamingService, connect_settings
from deltactl.storage.objects.services import Entry, ObjectService


def connect(uri: str, settings: dict[str, Any], traffic: Traffic) -> ObjectService:
    """Connect to a name node; its requests are not counted."""
    return WebHdfsService(WebHDFS(**connect_settings(WebHDFS, uri, settings)), uri)


class WebHdfsService(RenamingService):
    """Files on HDFS."""

    def rename_new(self, old: str, new: str) -> None:
        """Rename; the name node answers whether it did."""
        if self._rename(old, new).json() == {"boolean": True}:
            return
        if self.stat(new) is not None:
            raise FileExistsError(new)
        raise OSError(f"the name node refused to rename {old!r} to {new!r}")

    def rename_over(self, old: str, new: str) -> None:
        """Rename with the option that replaces files; gateways without it answer ``false``."""
        answer = self._rename(old, new, renameoptions="OVERWRITE")
        # HDFS itself answers to a rename with options without content.
        if answer.content and answer.json() != {"boolean": True}:
            raise OSError(f"the server has no renames that replace a file: {new!r} was not written")

    def _rename(self, old: str, new: str, **options: str) -> Any:
        return self._fs._call("RENAME", method="put", path=old, destination=new, **options)

    def _dated(self, entry: Entry) -> Entry:
        return {**entry, "mtime": entry["modificationTime"] / 1000}
