"""Update manifests after our commits, if the table property is set.

Source: the hook that Delta on Spark runs after commits of such tables.
"""

from __future__ import annotations

import shlex
from contextlib import closing

from deltactl.errors import DeltactlError
from deltactl.log.delta_log import DeltaLog
from deltactl.operations.manifest.content import ensure_no_vectors, load_table
from deltactl.operations.manifest.options import ManifestOptions
from deltactl.operations.manifest.plan import is_seen, plan_manifests
from deltactl.operations.manifest.record import read_recorded_version, record_version
from deltactl.operations.manifest.report import ManifestReport
from deltactl.operations.manifest.write import write_manifests
from deltactl.operations.run_context import RunContext
from deltactl.protocol.names import MANIFEST_DIR


def refresh_manifests(
    log: DeltaLog,
    before: int | None,
    context: RunContext,
) -> ManifestReport | None:
    """Update the manifests of the partitions that changed since the recorded version.

    This includes commits whose run was killed before it updated the manifests. Update all if no
    version is recorded, if ``before`` is ``None`` (there was no table), or if the table has no
    manifests. Do nothing unless ``delta.compatibility.symlinkFormatManifest.enabled`` is set. Never
    raise: the commits have succeeded, so a failure is a warning with the command to run.
    """
    store = log.store
    try:
        log.update()
        snapshot = log.snapshot()
        if not snapshot.properties.refreshes_manifests:
            return None
        has_manifests = before is not None and any(
            is_seen(name) for batch in store.walk(MANIFEST_DIR) for name in batch
        )
        since = read_recorded_version(snapshot) if has_manifests else None
        options = ManifestOptions(since=since)
        snapshot, live = load_table(log, None, snapshot)
        with closing(live):
            ensure_no_vectors(live, store.uri)
            plan = plan_manifests(
                log, snapshot, live, output=store, options=options, context=context
            )
            window_ms = write_manifests(plan, store, context.without_cancel())
        record_version(snapshot, context)
        return ManifestReport(plan, f"{store.uri}/{MANIFEST_DIR}", window_ms=window_ms)
    except DeltactlError as error:
        context.warn(
            f"the commit succeeded, but the manifests were not refreshed and still list old files: "
            f"{error.message}; run `deltactl generate-manifest {shlex.quote(store.uri)}`"
        )
        return None
