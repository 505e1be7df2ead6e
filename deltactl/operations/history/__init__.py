"""``describe-history``, also with ``--diff``, ``--blame`` and ``--restorable``."""
