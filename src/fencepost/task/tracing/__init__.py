"""Spans of batches and of commits, for OpenTelemetry. Only `spans` and `export` import its library."""
