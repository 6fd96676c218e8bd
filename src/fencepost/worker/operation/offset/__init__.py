"""Offsets of connectors: reading them, and changing them while the connector is stopped (KIP-875)."""
