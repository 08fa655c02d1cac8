"""Figures printed in the paper, and the goals of `PROTOCOLS.md`: constants, never our results."""

from __future__ import annotations

# One-step EMD, L2-UVP, Bd2-UVP of the paper's table 4, paired then unpaired.
SYNTHETIC: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "flowers": ((0.30, 0.00, 0.18), (0.31, 0.01, 0.24)),
    "styblinski_tang": ((0.26, 0.02, 0.15), (0.29, 0.04, 0.29)),
    "holder_table": ((0.29, 0.06, 0.18), (0.30, 0.06, 0.24)),
    "zigzag_ridge": ((0.29, 0.03, 0.17), (0.30, 0.04, 0.29)),
    "oakley_ohagan": ((0.24, 0.01, 0.20), (0.25, 0.02, 0.28)),
    "watershed": ((0.30, 0.00, 0.19), (0.30, 0.01, 0.24)),
    "ishigami": ((0.30, 0.01, 0.17), (0.30, 0.01, 0.25)),
    "friedman": ((0.29, 0.06, 0.20), (0.31, 0.06, 0.27)),
    "sphere": ((0.62, 0.86, 1.45), (0.64, 0.91, 1.24)),
    "bohachevsky": ((0.39, 7.39, 13.99), (0.38, 7.46, 12.93)),
    "wavy_plateau": ((0.27, 0.02, 0.51), (0.29, 0.04, 0.54)),
    "double_exp": ((0.34, 0.02, 0.22), (0.35, 0.06, 0.29)),
    "relu": ((0.35, 0.04, 0.18), (0.38, 0.10, 0.33)),
    "rotational": ((0.41, 0.82, 1.60), (0.45, 0.82, 1.80)),
    "flat": ((0.30, 0.00, 0.19), (0.31, 0.01, 0.24)),
}

# One-step EMD of the JKO methods on paired individuals (the paper's comparison with them).
JKO_PAIRED: dict[str, dict[str, float]] = {
    "flowers": {"jkonet-star": 0.01, "ijkonet": 0.01},
    "zigzag_ridge": {"jkonet-star": 0.04, "ijkonet": 0.02},
    "watershed": {"jkonet-star": 0.002, "ijkonet": 0.006},
    "ishigami": {"jkonet-star": 0.01, "ijkonet": 0.02},
    "friedman": {"jkonet-star": 0.09, "ijkonet": 0.06},
    "wavy_plateau": {"jkonet-star": 0.53, "ijkonet": 0.14},
}

# W1 at t = 1, 2, 3, 4 and their mean (the paper's EB table; rivals as printed there).
EB_FULL: dict[str, tuple[float, ...]] = {
    "Neural SDE": (0.69, 0.91, 0.85, 0.81, 0.82),
    "TrajectoryNet": (0.73, 1.06, 0.90, 1.01, 0.93),
    "SB-FBSDE": (0.56, 0.80, 1.00, 1.00, 0.84),
    "NLSB": (0.68, 0.84, 0.81, 0.79, 0.78),
    "OT-CFM": (0.78, 0.76, 0.77, 0.75, 0.77),
    "WLF-OT": (0.65, 0.78, 0.76, 0.75, 0.74),
    "WLF-SB": (0.63, 0.79, 0.77, 0.74, 0.73),
    "JKOnet": (1.53, 1.27, 1.13, 1.41, 1.34),
    "JKOnet* V(x)": (0.99, 1.11, 1.06, 1.30, 1.12),
    "iJKOnet V(x)": (0.92, 1.11, 0.95, 1.21, 1.05),
    "stitching V(x), paper": (0.46, 0.60, 0.60, 0.65, 0.58),
    "JKOnet* V(x,t)": (0.69, 0.77, 0.69, 0.78, 0.73),
    "iJKOnet V(x,t)": (0.51, 0.58, 0.57, 0.64, 0.58),
    "stitching V(x,t), paper": (0.44, 0.56, 0.57, 0.60, 0.54),
}

# W2 at t = 1, 3 and their mean.
EB_GAPS: dict[str, tuple[float, float, float]] = {
    "TrajectoryNet": (2.03, 1.93, 1.98),
    "Vanilla-SB": (1.49, 1.55, 1.52),
    "MMSB": (1.27, 1.57, 1.42),
    "DMSB": (1.13, 1.45, 1.29),
    "JKOnet* V(x)": (1.15, 2.53, 1.84),
    "iJKOnet V(x)": (1.08, 1.15, 1.12),
    "stitching V(x), paper": (0.85, 0.99, 0.92),
    "JKOnet* V(x,t)": (4.41, 2.77, 3.59),
    "iJKOnet V(x,t)": (0.98, 0.85, 0.92),
    "stitching V(x,t), paper": (0.84, 0.92, 0.88),
}

# W1 at t = 1, 2, 3, left out one at a time, and their mean; all cells of the left-out time. Best
# checkpoint advised (OTP-FM); the potentials may be of left-out cells (WLF-OT).
EB_LOO: dict[str, tuple[str, str, str, str]] = {
    "OTP-FM": ("0.618", "0.657", "0.654", "0.643"),
    "OT-MFM": ("-", "-", "-", "0.713"),
    "OT-CFM": ("-", "-", "-", "0.81 to 0.82"),
    "WLF-OT": ("-", "-", "-", "0.641"),
}

# w1, w2, bures, mmd, R2(V), R2(W).
CIS: dict[str, tuple[float, ...]] = {
    "JKOnet*, paper": (50.06, 82.62, 10120.0, 0.173, 0.04, 0.72),
    "stitching, paper": (0.49, 0.85, 0.19, 0.017, 0.84, 0.81),
}

# Score, goal, and what the tilt of the valley alone scores.
WAVY_VALLEY: dict[str, tuple[str, float, float]] = {
    "wavy-valley": ("raw_r2", 0.93, 0.88),
    "wavy-valley-code": ("raw_r2_box", 0.80, 0.62),
}

# The largest mean W1 wanted.
EB_GOALS: dict[tuple[str, str], float] = {
    ("eb-full-varying", "marginal"): 0.535,
    ("eb-full-varying", "one-step"): 0.56,
    ("eb-full-varying", "rollout"): 0.59,
    ("eb-full", "marginal"): 0.60,
    ("eb-full", "one-step"): 0.80,
    ("eb-full", "rollout"): 0.75,
}

# Task, protocol, metric and the paper's figure for stitching: what its method is run again for.
PRINTED: tuple[tuple[str, str, str, float], ...] = (
    ("eb-full-varying", "marginal", "w1", 0.54),
    ("eb-full", "marginal", "w1", 0.58),
    ("eb-leave-two-out-varying", "interpolate", "w2", 0.88),
    ("eb-leave-two-out", "interpolate", "w2", 0.92),
    ("cis", "marginal", "w1", 0.49),
    ("cis", "energy", "pattern_r2_box", 0.84),
    ("cis", "energy", "w_pattern_r2", 0.81),
    ("wavy-valley-code", "energy", "raw_r2_box", 0.62),
)
