"""Stitching, the default method. Read `stitching.py` first."""
