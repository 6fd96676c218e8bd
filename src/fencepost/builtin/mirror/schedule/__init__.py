"""Work at an interval: a timer, and threads that look at something or carry something out."""
