"""Storage: run directories, saved and loaded."""
