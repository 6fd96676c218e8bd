"""Generated records at a steady rate, and a sink that prints them: for trials and tests."""
