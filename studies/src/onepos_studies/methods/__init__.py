"""Methods of the literature, and SMILE as its authors released it; registered as entry points."""
