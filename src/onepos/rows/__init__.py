"""Rows of features in every form: tensors, items of a torch Dataset, files on disk; and their scaling."""
