"""The page of results, the table of the list of methods and the figures, made from the committed results files."""
