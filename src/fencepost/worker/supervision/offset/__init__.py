"""The committed offsets of connectors on this worker: where they are kept, read ahead, and copied."""
