"""List the kinds of catalogs: one row for each.

To add a kind, add a row, and a module with the functions that ``CatalogKind.module`` names. This
module imports no library, and no catalog.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_BREAKS: Final = re.compile(r"[\x00-\x08\x0a-\x1f\ufffe\uffff]+")


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a catalog: ``key`` in a section of deltactl.toml, and environment variables.

    The names of the variables in lower case are storage options. ``option`` is a storage option
    that the catalog and the storage share. Workers get what is ``sent`` to them; the rest they find
    on their own machine.
    """

    key: str
    variables: tuple[str, ...] = ()
    is_secret: bool = False
    is_sent: bool = False
    option: str = ""


@dataclass(frozen=True, slots=True)
class CatalogKind:
    """A kind of catalog.

    Attributes:
        title: its name in texts.
        module: the module with ``connect(place, settings) -> Catalog``, and ``read_files(found,
            environ)``, which returns settings from configuration files of other programs.
        place: what a name may have before the first slash: a server or an account.
        parts: of a name, separated by dots.
        settings: all settings.
        gives_credentials: whether it may give credentials for the storage.
        is_like_hive: whether its types, names in lower case and symlink tables are those of Hive.
        is_of_cloud: whether no engine that uses it reads the disks of this machine.
        keeps_keys: whether the partition keys of a table never change.
        comment_bytes: that the comment of a column has at most, in one line; ``None``: any.
    """

    title: str
    module: str
    place: str
    parts: tuple[str, ...]
    settings: tuple[Setting, ...]
    gives_credentials: bool = False
    is_like_hive: bool = False
    is_of_cloud: bool = False
    keeps_keys: bool = False
    comment_bytes: int | None = None

    def syntax(self, scheme: str) -> str:
        """Return the form of a name, such as ``uc://CATALOG.SCHEMA.TABLE``."""
        return f"{scheme}://{f'[{self.place}/]' if self.place else ''}{'.'.join(self.parts)}"

    def cut_comment(self, comment: str) -> str:
        """Return what the catalog can keep of the comment of a column."""
        if self.comment_bytes is None:
            return comment
        line = " ".join(_BREAKS.split(comment))
        return line.encode("utf-8", "replace")[: self.comment_bytes].decode("utf-8", "ignore")


UNITY: Final = CatalogKind(
    title="Unity Catalog",
    module="deltactl.catalog.unity",
    place="",
    parts=("CATALOG", "SCHEMA", "TABLE"),
    gives_credentials=True,
    # Source: delta-rs and the unified authentication of Databricks.
    settings=(
        Setting(
            "host",
            ("DATABRICKS_HOST", "DATABRICKS_WORKSPACE_URL", "UNITY_WORKSPACE_URL"),
            is_sent=True,
        ),
        Setting(
            "token",
            ("DATABRICKS_TOKEN", "DATABRICKS_ACCESS_TOKEN", "UNITY_ACCESS_TOKEN"),
            is_secret=True,
        ),
        Setting("client-id", ("DATABRICKS_CLIENT_ID", "UNITY_CLIENT_ID")),
        Setting(
            "client-secret", ("DATABRICKS_CLIENT_SECRET", "UNITY_CLIENT_SECRET"), is_secret=True
        ),
        Setting("profile", ("DATABRICKS_CONFIG_PROFILE",)),
        Setting("config-file", ("DATABRICKS_CONFIG_FILE",)),
        Setting("allow-http", ("UNITY_ALLOW_HTTP_URL",), is_sent=True),
    ),
)

GLUE: Final = CatalogKind(
    title="AWS Glue",
    module="deltactl.catalog.glue",
    place="CATALOG_ID",
    parts=("DATABASE", "TABLE"),
    is_like_hive=True,
    is_of_cloud=True,
    comment_bytes=255,  # source: AWS Glue Web API Reference, Column
    # botocore finds all others in its own files and variables.
    settings=(
        Setting("region", ("AWS_REGION", "AWS_DEFAULT_REGION"), option="region"),
        Setting("profile", ("AWS_PROFILE",), option="profile"),
        Setting("endpoint-url", ("AWS_ENDPOINT_URL_GLUE",)),
        Setting("key", option="key"),
        Setting("secret", option="secret", is_secret=True),
        Setting("session-token", option="token", is_secret=True),
        Setting("allow-http", ("AWS_ALLOW_HTTP",)),
    ),
)

HIVE: Final = CatalogKind(
    title="the Hive metastore",
    module="deltactl.catalog.hive",
    place="HOST:PORT",
    parts=("DATABASE", "TABLE"),
    is_like_hive=True,
    keeps_keys=True,
    comment_bytes=256,  # source: Apache Hive, hive-schema-2.3.0.mysql.sql, COLUMNS_V2
    settings=(Setting("uris"), Setting("conf-dir", ("HIVE_CONF_DIR",))),
)

KINDS: Final[dict[str, CatalogKind]] = {"uc": UNITY, "glue": GLUE, "hive": HIVE}
"""The row of each scheme."""
