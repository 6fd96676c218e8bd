"""Values in the environment of executors that must not be visible elsewhere."""

SECRET = "never-to-be-seen-4711"
CHANNEL_SECRET = "of-the-channel-4712"
