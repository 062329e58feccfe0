"""LEO-Mini in PyTorch: conditional token reduction over several vision experts, routed LoRA experts in the decoder.

Axis letters in shapes: b batch, s decoder positions, t text tokens, p pictures, n source tokens of one vision expert,
v reduced visual tokens (N^V), m vision experts, e LoRA experts, g = e plus the general one, r rank, l layers, d width,
h heads, k top-k, a answer tokens.

`load()` gives the embedded model and its processor; `tracing.run` asks it and records; importing this package registers
LeoMini with transformers' Auto classes.
"""

from transformers import AutoConfig, AutoImageProcessor, AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor

from leo_core.checkpoint import load, load_model, load_processor, save_model
from leo_core.config import ExpertSource, LeoConfig, MMoEConfig, ProjectorConfig, ReducerConfig
from leo_core.errors import LeoError
from leo_core.model import LeoMini
from leo_core.processor import LeoImageProcessor, LeoProcessor

__version__ = "0.1.0"
__all__ = [
    "ExpertSource", "LeoConfig", "LeoError", "LeoImageProcessor", "LeoMini", "LeoProcessor", "MMoEConfig", "ProjectorConfig",
    "ReducerConfig", "load", "load_model", "load_processor", "save_model",
]  # fmt: skip

AutoConfig.register(LeoConfig.model_type, LeoConfig, exist_ok=True)
for auto in (AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText):
    auto.register(LeoConfig, LeoMini, exist_ok=True)
AutoProcessor.register(LeoConfig, LeoProcessor, exist_ok=True)
AutoImageProcessor.register(LeoConfig, slow_image_processor_class=LeoImageProcessor, exist_ok=True)
