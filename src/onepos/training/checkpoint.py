"""Checkpoints: a file without code, replaced as a whole each epoch; a run goes on from it as if it had not stopped."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from onepos._utils.files import replaced_when_done
from onepos._utils.tensor_file import opened, write_tensors
from onepos.exceptions import CheckpointError
from onepos.training.loop import Run

FORMAT = "onepos checkpoint"
FORMAT_VERSION = 1
FILE = "checkpoint.safetensors"


class Checkpoint:
    """A folder, made when it is first written to, in which a run is kept.

    ``run`` are JSON-able values that identify it: method, settings, data. A checkpoint of another run is refused.
    ``draws_globally``: the run draws from torch's global generators too, as networks of the user's own do.
    """

    def __init__(self, folder: str | Path, run: Mapping[str, Any], *, draws_globally: bool = False) -> None:
        self.path, self.run = Path(folder) / FILE, json.loads(json.dumps(run))
        self.draws_globally = draws_globally

    def save(self, run: Run) -> None:
        """Write how far the run is; only process 0 calls this."""
        from safetensors.torch import save_file

        steps = run.steps
        parts = {"objective": run.last_state, "running": steps.objective.running_state()}
        if run.average is not None:
            parts["average"] = run.average.state_dict()
        if run.best_epoch >= 0 and run.best_state is not run.kept_state:
            parts["best"] = run.best_state
        for loss, optimizer in steps.optimizers.items():
            for number, state in optimizer.state_dict()["state"].items():
                parts[f"optimizer.{loss}.{number}"] = state
        parts["random"] = {name: get() for name, (get, _) in self._random_states(steps.generator).items()}
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "run": self.run,
            "losses": list(steps.optimizers),
            "best": {"score": run.best_score, "epoch": run.best_epoch},
            "records": run.history.records,
            "restart": run.restart,
        }
        tensors = {f"{part}.{name}": value for part, named in parts.items() for name, value in named.items()}
        # Copied: safetensors refuses tensors that share memory, as a step count does with its group.
        content = {name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_when_done(self.path) as part:
            write_tensors(part, save_file, content, header)

    def resume(self, run: Run) -> None:
        """Continue the run that the folder holds, if it holds one; all processes read it."""
        content = self._read()
        if content is None:
            return
        header, tensors = content
        kept, steps = header["run"], run.steps
        for name in dict.fromkeys([*self.run, *kept]):
            if kept.get(name) != self.run.get(name):
                raise CheckpointError(
                    f"{self.path} is of another run: {name} was {kept.get(name)!r} and is {self.run.get(name)!r}. Give "
                    "the arguments of that run to go on with it, or another folder for this one."
                )
        state, best = _named(tensors, "objective."), _named(tensors, "best.")
        try:
            steps.objective.load_state_dict(state)
            steps.objective.resume(_named(tensors, "running."))
            if run.average is not None:
                run.average.load_state_dict(_named(tensors, "average."))
            for loss in header["losses"]:
                _restore(steps.optimizer(loss), _named(tensors, f"optimizer.{loss}."))
            for name, (_, put_back) in self._random_states(steps.generator).items():
                put_back(tensors[f"random.{name}"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise CheckpointError(
                f"{self.path} does not fit the run that it was written by ({error}): remove it to begin again."
            ) from error
        device = next(steps.objective.parameters()).device
        run.last_state = {name: value.to(device) for name, value in state.items()}
        run.kept_state = run.averaged_state()
        run.history.records[:] = header["records"]
        run.restart, run.best_score, run.best_epoch = (
            header["restart"],
            header["best"]["score"],
            header["best"]["epoch"],
        )
        if run.best_epoch >= 0:
            run.best_state = {name: value.to(device) for name, value in best.items()} or run.kept_state
        run.history.facts["resumed_after_epoch"] = len(run.history)

    def _random_states(self, generator: torch.Generator) -> dict[str, tuple[Callable[[], Tensor], Callable[..., Any]]]:
        """Return the functions that read and set the state of each generator that the run draws from."""
        states: dict[str, Any] = {"run": (generator.get_state, generator.set_state)}
        if self.draws_globally:
            states["torch"] = torch.get_rng_state, torch.set_rng_state
            if generator.device.type == "cuda":
                states["cuda"] = torch.cuda.get_rng_state, torch.cuda.set_rng_state
        return states

    def kept(self) -> dict[str, Any] | None:
        """Return the values that identify the run in the folder; None if there is none."""
        content = self._read()
        return None if content is None else dict(content[0]["run"])

    def _read(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        if not self.path.is_file():
            return None
        try:
            with opened(self.path, FORMAT, FORMAT_VERSION, "pt") as (header, file):
                return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        except ValueError as error:
            raise CheckpointError(f"{self.path} {error}: give another folder, or remove it to begin again.") from error


def _named(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _restore(optimizer: torch.optim.Optimizer, named: Mapping[str, Tensor]) -> None:
    """Give an optimiser its means, squares and numbers of steps back."""
    states: dict[int, dict[str, Tensor]] = {}
    for key, value in named.items():
        number, _, name = key.partition(".")
        states.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict(optimizer.state_dict() | {"state": states})
