"""Replication of the paper: studies and their committed rows, benchmark data sets, and methods of the literature."""
