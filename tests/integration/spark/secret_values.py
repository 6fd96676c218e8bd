"""What executors get in their environment here, and nobody else may see."""

SECRET = "never-to-be-seen-4711"
CHANNEL_SECRET = "of-the-channel-4712"
