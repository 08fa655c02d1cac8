"""The energy: a sum of terms, the functions behind them, and the motion it drives."""
