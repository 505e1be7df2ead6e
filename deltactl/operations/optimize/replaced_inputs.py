"""Find inputs that are not the files that the log describes, before their rows are committed."""

from __future__ import annotations

import pyarrow.compute as pc

from deltactl.errors import DataFileError
from deltactl.log.writing.concurrent_deletes import Bin
from deltactl.operations.missing_files import PRESENCE_COLUMNS, find_missing, list_missing
from deltactl.operations.run_context import RunContext
from deltactl.storage.store import Store


def find_replaced(store: Store, rewritten: Bin, context: RunContext) -> DataFileError | None:
    """Return an error if files of a bin were replaced by others, such as by a wrong restore.

    A commit would make the loss of their rows permanent, and nothing would show it any more. Only
    if the number of rows is not that of the log are the sizes requested: statistics may be wrong,
    and a file that has the size in the log is accepted.

    Raises:
        InterruptedRunError: the run was cancelled.
    """
    files = rewritten.removed
    if files["num_records"].null_count:
        return None
    deleted = pc.sum(pc.struct_field(files["deletion_vector"], "cardinality")).as_py() or 0
    expected = pc.sum(files["num_records"]).as_py() - deleted
    if expected == sum(file.num_records for file in rewritten.added):
        return None
    replaced = find_missing(store, [files.select(PRESENCE_COLUMNS)], context)
    if not replaced:
        return None
    return DataFileError(
        f"the log has {expected:,} rows for files with other rows: {list_missing(replaced)}",
        hint="Run `deltactl explain FILE_SIZE`, which says how to keep the old rows, the new ones, "
        "or both. Then rerun.",
    )
