"""One fit on several devices gives what one device gives."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import stitchflow as sf

PROGRAM = Path(__file__).with_name("sharded_fit.py")


def start(*arguments: str) -> subprocess.Popen:
    environment = {k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}
    call = [sys.executable, str(PROGRAM), *arguments]
    return subprocess.Popen(call, stdout=subprocess.PIPE, text=True, env=environment)


def answers(program: subprocess.Popen) -> list[dict]:
    out, _ = program.communicate(timeout=600)
    assert program.returncode == 0
    return json.loads(out.splitlines()[-1])


def assert_equal(one: dict, other: dict) -> None:
    for name in one:  # sums are taken in another order
        np.testing.assert_allclose(one[name], other[name], rtol=2e-3, atol=2e-3, err_msg=name)


@pytest.mark.full
def test_two_devices_and_two_processes_equal_one():
    two, one = answers(start())
    assert_equal(two, one)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for (apart,) in map(answers, [start(port, "0"), start(port, "1")]):
        assert_equal(apart, one)


def test_bad_devices_are_refused():
    data = sf.Snapshots.from_arrays([np.eye(3, 1), 1.0 + np.eye(3, 1)], [0.0, 1.0])
    with pytest.raises(TypeError, match="devices must be some of"):
        sf.fit(data, devices=["cpu"])
    with pytest.raises(TypeError, match="nearest cannot share a fit"):
        sf.fit(data, sf.Nearest(), devices=jax.devices())
