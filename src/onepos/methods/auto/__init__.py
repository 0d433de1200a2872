"""The default method: a pool of methods, trained within a time budget."""
