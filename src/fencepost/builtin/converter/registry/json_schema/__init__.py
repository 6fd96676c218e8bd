"""JSON Schema: its schemas as Connect's and back, and values as JSON."""
