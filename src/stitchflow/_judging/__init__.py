"""Judging a fit: scores, cross-validation and diagnosis."""
