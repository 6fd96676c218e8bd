"""Nobody looks at what groups outside of the cluster's sinks read (E9)."""

from fencepost.kafka.group.topic_readers import TopicReaders
from planted import replace

replace(TopicReaders, "look", lambda self: [])
