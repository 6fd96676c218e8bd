"""Two clusters and what is mirrored between them: by Java's MirrorMaker or by ours, from a workload, with a verdict."""
