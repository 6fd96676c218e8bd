"""Administration of a cluster: `client.Admin`, and its parts: topics, the offsets of logs, configs, ACLs."""
