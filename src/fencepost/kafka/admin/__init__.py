"""Administration of a cluster: topics, the ends of logs, the deletion of records."""
