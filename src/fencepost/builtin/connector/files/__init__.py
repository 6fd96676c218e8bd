"""Topics as Parquet, JSON or CSV files in a directory that its readers always find complete."""
