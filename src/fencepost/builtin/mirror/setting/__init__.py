"""What all connectors of a mirror are configured with: clusters and their clients, names, filters, policies."""
