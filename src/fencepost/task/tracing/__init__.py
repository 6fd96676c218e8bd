"""Spans of batches and of commits, for OpenTelemetry. Only `spans` imports its library."""
