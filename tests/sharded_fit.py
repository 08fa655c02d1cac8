"""A small fit on two devices, run as a program: `sharded_fit.py PORT RANK` for two processes.

Prints beta, forces and some particles as JSON. Without arguments two virtual devices of this
process and one are asked in turn.
"""

import json
import os
import sys

if len(sys.argv) == 1:
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import numpy as np

if len(sys.argv) == 3:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]))

import stitchflow as sf


def answers(devices) -> dict:
    rng = np.random.default_rng(0)
    sizes = (61, 62, 65)  # never a multiple of two devices
    clouds = [rng.normal(size=(n, 2)) + np.array([k, 0.0]) for k, n in enumerate(sizes)]
    data = sf.Snapshots.from_arrays(clouds, [0.0, 1.0, 3.0])
    method = sf.Stitching(
        sf.Potential(hidden=(8,)) + sf.Entropy(),
        particles=20,
        nodes=5,
        optimiser=sf.Optimiser(steps=30),
    )
    fit = sf.fit(data, method, progress=False, devices=devices)
    flow, energy = fit.flow, fit.energy
    assert fit.status.ok, fit.status
    return {
        "beta": energy.beta,
        "force": np.asarray(energy.force(data.x[:5])).tolist(),
        "particles": np.asarray(flow.curve.particles)[:, :3].tolist(),
    }


if __name__ == "__main__":
    found = [answers(jax.devices())]
    if len(sys.argv) == 1:
        found.append(answers(None))
    print(json.dumps(found))
