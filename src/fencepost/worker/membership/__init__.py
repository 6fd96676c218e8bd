"""This worker among the others: who they are, whether it is still one of them, and how it talks to the leader."""
