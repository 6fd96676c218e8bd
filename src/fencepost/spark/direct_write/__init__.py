"""Direct writes: `df.write.format("fencepost")`."""
