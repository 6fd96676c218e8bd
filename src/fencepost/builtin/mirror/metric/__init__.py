"""A mirror's metrics: which there are, and what tasks measure for them."""
