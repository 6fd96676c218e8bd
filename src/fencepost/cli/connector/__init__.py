"""Commands about connectors that workers have, over REST."""
