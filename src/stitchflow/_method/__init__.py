"""The contract of every method: its fit, its flow, its name."""
