"""The main job from start to end on the embedded data: train, compare with full supervision, write a report."""

from onepos.demo.result import DemoResult
from onepos.demo.run import DEMO_METHODS, run_demo

__all__ = ["DEMO_METHODS", "DemoResult", "run_demo"]
