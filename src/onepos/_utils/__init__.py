"""Helpers that every package may use: files, optional imports, random numbers, checks of input, time limits."""
