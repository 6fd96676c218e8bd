"""This worker in its group: the other members, whether it is still a member, and its requests to the leader."""
