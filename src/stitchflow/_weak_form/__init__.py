"""The energy from averages over the observed individuals alone: the weak form."""
