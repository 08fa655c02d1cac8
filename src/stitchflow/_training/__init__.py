"""Training: one compiled loop, its state on disk, several devices, many jobs."""
