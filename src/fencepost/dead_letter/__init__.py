"""Dead letters: reads them, and resends those of sinks, each once. The command line and workers share this."""
