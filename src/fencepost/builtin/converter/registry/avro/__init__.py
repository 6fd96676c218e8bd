"""Avro: its schemas as Connect's and back, and values by fastavro."""
