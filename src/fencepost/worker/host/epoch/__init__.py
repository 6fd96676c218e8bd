"""Tasks of DataFrame sinks and streams: members of their groups, which plan and commit epochs."""
