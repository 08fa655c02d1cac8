"""The contract of every method: its fit, its flow and its name."""
