"""Keeping manifests in line with commits of ours, where a table asks for it.

Source: the hook that Delta on Spark runs after commits of such tables.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from deltactl.clock import Clock
from deltactl.errors import DeltactlError, Warn
from deltactl.log.snapshot import load_snapshot
from deltactl.log.writing.put import Sleep
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.plan import is_seen
from deltactl.protocol.vacuum_names import MANIFEST_DIR
from deltactl.storage.store import Store

if TYPE_CHECKING:
    from deltactl.operations.manifest.report import ManifestReport

AUTO_PROPERTY: Final = "delta.compatibility.symlinkFormatManifest.enabled"


def refresh_manifests(
    store: Store,
    before: int | None,
    *,
    warn: Warn,
    clock: Clock | None = None,
    sleep: Sleep = time.sleep,
) -> ManifestReport | None:
    """After commits of ours: refresh the manifests of the partitions touched since ``before``.

    All of them where ``before`` is ``None``, because there was no table yet, and where the table
    has none. Only where the table asks for it
    (``delta.compatibility.symlinkFormatManifest.enabled``). Never raises: the commits stand
    whatever happens here, so a failure is a warning that says what to run.
    """
    # Here, because generating manifests may purge, which is an optimize, which refreshes manifests.
    from deltactl.operations.manifest.run import generate_manifests

    try:
        snapshot = load_snapshot(store, warn=warn)
        if not snapshot.properties.flag(AUTO_PROPERTY):
            return None
        has_manifests = before is not None and any(
            is_seen(name) for batch in store.walk(MANIFEST_DIR) for name in batch
        )
        options = ManifestOptions(since=before if has_manifests else None)
        return generate_manifests(
            store, options, warn=warn, snapshot=snapshot, clock=clock, sleep=sleep
        )
    except DeltactlError as error:
        warn(
            f"the commit is done, but its manifests were not refreshed and name old files: "
            f"{error.message}; run `deltactl generate-manifest {store.uri}`"
        )
        return None
