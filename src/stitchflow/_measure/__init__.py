"""Measures: kernel densities, transport between clouds, curves of distributions."""
