"""SMILE and its variants."""
