"""``--cluster-by`` and ``--zorder-by``: choose the output file of each row."""
