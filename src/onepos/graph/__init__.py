"""The neighbour graph over rows: exact and approximate search, and sums over neighbourhoods."""
