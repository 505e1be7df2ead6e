"""``--report``: write the report as one HTML page."""
