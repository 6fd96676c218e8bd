"""The command line: `fencepost worker`, `fencepost dev`, `fencepost kafka start`."""
