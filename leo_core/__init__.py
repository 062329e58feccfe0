"""LEO-Mini in PyTorch: conditional token reduction over several vision experts, routed LoRA experts in the decoder.

Axis letters in shapes: b batch, s decoder positions, t text tokens, p pictures, n source tokens of one vision expert,
v reduced visual tokens (N^V), m vision experts, e LoRA experts, g = e plus the general one, r rank, l layers, d width,
h heads, k top-k, a answer tokens.

`load()` gives the embedded model and its processor; `tracing.run` asks it and records; importing this package registers
LeoMini with transformers' Auto classes. Names below are imported on first use: reading a trace needs no torch.
"""

from importlib import import_module

from leo_core import auto_classes

__version__ = "0.1.0"

_HOMES = {
    "checkpoint": ("load", "load_model", "load_processor"),
    "saving": ("save_model",),
    "config": ("ExpertSource", "LeoConfig", "MMoEConfig", "ProjectorConfig", "ReducerConfig"),
    "errors": ("LeoError",),
    "model": ("LeoMini",),
    "processor": ("LeoImageProcessor", "LeoProcessor"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME)  # noqa: PLE0605 - a list, from the one table of names


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module 'leo_core' has no attribute '{name}'")
    globals()[name] = value = getattr(import_module(f"leo_core.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


auto_classes.register_when_possible()
