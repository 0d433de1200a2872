"""Helpers that every package may use: files, labels, the machine, checks of input, time limits."""
