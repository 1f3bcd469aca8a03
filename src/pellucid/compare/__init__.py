"""Several representations side by side: one table, one figure, and which dimensions recur."""
