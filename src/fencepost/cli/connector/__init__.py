"""Commands about connectors, over REST: a file for each."""
