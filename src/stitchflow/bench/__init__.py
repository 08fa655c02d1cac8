"""The benchmark: a list of tasks and a list of methods; a run is one of each with a seed."""

from stitchflow.bench._runs import Run
from stitchflow.bench._tasks import TASKS, Problem, Task

__all__ = ["TASKS", "Problem", "Run", "Task"]
