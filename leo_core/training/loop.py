"""One loop for every stage: batches, gradient steps, metrics, and checkpoints a killed run goes on from."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from leo_core.errors import InputError
from leo_core.files import atomic_path
from leo_core.training.stages import Stage, linear_decay, set_trainable

Loss = Callable[[int], tuple[Tensor, dict[str, float]]]
"""From a step number to (loss with gradient, further numbers worth logging). Must depend on the step number only, so that
a resumed run sees the same batches."""


@dataclass(frozen=True)
class Metrics:
    """One line of the training log. loss: this step's; rate: questions per second since the (re)start; eta in seconds."""

    stage: str
    step: int
    steps: int
    loss: float
    rate: float
    eta: float
    more: dict[str, float]

Report = Callable[[Metrics], None]
"""What to do with each step's metrics: print a line, move a bar."""


def train_stage(model: nn.Module, stage: Stage, loss: Loss, folder: Path, clip: float = 1.0, data: str = "") -> Iterator[Metrics]:
    """Run the stage, yielding metrics after each step; resumes from `folder` when a checkpoint of this stage is there.

    Metrics also go to `folder`/STAGE.jsonl. The checkpoint is atomic and holds trained weights, fitted buffers, optimizer
    state and step: a stopped run ends with the same bits as one that was not. data: what tells the pictures and the start
    apart from others (`FeatureStore.identity`); raises InputError where the checkpoint was made with another stage or other data.
    """
    groups = set_trainable(model, stage.rates)
    accelerator = Accelerator(mixed_precision="no")  # its own kind holds for the whole process and for the model ever after
    half = partial(torch.autocast, accelerator.device.type, torch.bfloat16, enabled=stage.precision == "bfloat16")
    adam = torch.optim.AdamW([{**group, "initial_lr": group["lr"]} for group in groups], weight_decay=stage.weight_decay)
    model, optimizer = accelerator.prepare(model, adam)
    path = folder / f"{stage.name}.checkpoint.safetensors"
    made_of = hashlib.sha256(f"{stage} {data}".encode()).hexdigest()
    first = _resume(path, model, optimizer, made_of) if path.exists() else 0
    schedule = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: linear_decay(step, stage), last_epoch=first - 1)
    started = time.monotonic()
    for step in range(first, stage.steps):
        torch.manual_seed(step)  # dropout of experts and tokens: the same whether or not the run was interrupted
        with half():
            value, more = loss(step)
        accelerator.backward(value)
        accelerator.clip_grad_norm_([p for group in optimizer.param_groups for p in group["params"]], clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        rate = (step + 1 - first) * stage.batch / (time.monotonic() - started)
        metrics = Metrics(stage.name, step + 1, stage.steps, value.item(), rate, (stage.steps - step - 1) * stage.batch / rate, more)
        with open(folder / f"{stage.name}.jsonl", "a") as log:
            log.write(json.dumps(asdict(metrics)) + "\n")
        if (step + 1) % stage.save_every == 0 or step + 1 == stage.steps:
            _save(path, accelerator.unwrap_model(model), optimizer, step + 1, made_of)
        yield metrics


def _trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def _buffers(model: nn.Module) -> dict[str, Tensor]:
    """What training fits without gradients (the reducer's "absent" means) travels with the checkpoint too."""
    parameters = {name for name, _ in model.named_parameters()}
    return {name: value for name, value in model.state_dict().items() if name not in parameters and name.startswith("reducer.")}


def _save(path: Path, model: nn.Module, optimizer, step: int, made_of: str) -> None:
    tensors = {f"buffer.{name}": value.clone() for name, value in _buffers(model).items()}
    for name, parameter in _trained(model).items():
        tensors[f"weight.{name}"] = parameter.detach()
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = torch.as_tensor(value)
    with atomic_path(path) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, temporary, metadata={"step": str(step), "made_of": made_of})


def _resume(path: Path, model: nn.Module, optimizer, made_of: str) -> int:
    with safe_open(path, "pt") as file, torch.no_grad():
        if file.metadata().get("made_of") != made_of:
            raise InputError(f"'{path}' was made with other pictures, steps or rates: remove it to train anew, or choose another folder.")
        step, known = int(file.metadata()["step"]), set(file.keys())
        for name, buffer in _buffers(model).items():
            buffer.copy_(file.get_tensor(f"buffer.{name}"))
        for name, parameter in _trained(model).items():
            parameter.copy_(file.get_tensor(f"weight.{name}"))
            if f"step.{name}" in known:  # a parameter that no loss has reached has no optimizer state
                optimizer.state[parameter] = {
                    key: file.get_tensor(f"{key}.{name}").to(parameter.device if key != "step" else "cpu") for key in ("step", "exp_avg", "exp_avg_sq")
                }
    return step
