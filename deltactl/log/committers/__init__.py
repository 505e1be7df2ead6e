"""Decide which commit is the next version: by put-if-absent, or by DynamoDB."""
