"""From scores to label sets: thresholds, calibration, the number of positives, pooled rankings."""
