"""Objectives: residuals, divergences and what else a fit is trained by."""
