"""The options by which the runtime tells the data source what is asked of it; the rest goes by the channel (E11)."""

CHANNEL_OPTION = "fencepost.channel"
RUN_OPTION = "fencepost.run"
READING_OPTION = "fencepost.reading"
CSV_OPTION = "fencepost.csv"
RANGES_OPTION = "fencepost.ranges"
PAYLOAD_OPTION = "fencepost.payload"
