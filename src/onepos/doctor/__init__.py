"""The doctor looks at data before anything is fitted: :func:`diagnose` and :func:`estimate_cardinality`."""

from onepos.doctor.cardinality import CardinalityEstimate, estimate_cardinality
from onepos.doctor.diagnosis import CODES, Diagnosis, Finding, Summary
from onepos.doctor.run import diagnose

__all__ = ["CODES", "CardinalityEstimate", "Diagnosis", "Finding", "Summary", "diagnose", "estimate_cardinality"]
