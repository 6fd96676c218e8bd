"""Members of groups, readers of plans and of ranges, followers of whole topics, and what is lost."""
