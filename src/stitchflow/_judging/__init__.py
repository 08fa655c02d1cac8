"""Judging: scores, cross-validation, diagnosis."""
