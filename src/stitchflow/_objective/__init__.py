"""Objectives: what a fit is trained by."""
