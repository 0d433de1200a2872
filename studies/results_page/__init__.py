"""The page of results, the README's table and the figures, made from the committed results files."""
