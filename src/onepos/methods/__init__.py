"""Estimators, one method a file."""
