"""Answers about images: why two are similar, and which are most similar to one."""
