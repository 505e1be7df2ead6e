"""Copy row groups of Parquet files into a new file without decoding them."""
