"""Data: snapshots, their units, minibatches, and what to know about them before a fit."""
