"""The embedded model: a LEO-Mini of real pretrained parts that runs on a laptop without a GPU or a network.

Decoder: SmolLM2-135M-Instruct. Vision experts: EfficientNet-Lite0 on the whole picture (natural objects) and on the
picture at twice that size (small things), the PP-OCRv4 detector (text regions) and the PP-OCRv4 recogniser on the boxes
it finds (reading). Features are inner tensors of the graphs; the files stay as they came.
"""

from dataclasses import replace

from leo_core.config import ExpertSource, LeoConfig, MMoEConfig, ProjectorConfig, ReducerConfig

IMAGE_TOKEN = "<file_sep>"
"""A token that SmolLM2 reserves and never meets in chats."""

ANSWER_PREFIX = " "
"""Before every answer (see LeoProcessor)."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""SmolLM2's chat marks without its built-in system prompt, which would be longer than most questions."""

COTR = ReducerConfig(kind="cotr", tokens=16, projection=128, similarity="cosine", query_init="grid", position="similarity",
                     position_amplitude=2.4)  # fmt: skip
"""The amplitude decides: at 0.6 what a token shows outweighs where it is, and the windows of the queries get holes. Behind stage 2's
decoder, before any training and without TEXT, the loss is 1.65 at 0.6, 1.19 at 1.2, 0.90 at 2.4, 0.82 at 6; average pooling 0.82 (240 to
300 questions of training pictures)."""
KEEP_ALL = ReducerConfig(kind="keep_all", tokens=64, grid=(8, 8), position="none")

_OBJECTS = {"asset": "efficientnet_lite0/efficientnet_lite0.onnx", "tensors": ["last", "middle"]}
_DETECTOR_PIXELS = {"size": [448, 448], "fit": "within", "multiple": 32}
_DETECTOR = {"part": "text-detector", "tensors": ["p2o.Concat.1", "sigmoid_0.tmp_0"]}


def embedded_experts() -> tuple[ExpertSource, ...]:
    """The four experts. Widths: 1280 + 112 channels, the same, 96 + the text probability, 642 (12 spelled characters).

    Why small things have their own: a linear probe names 78 % of the things in unseen scenes from the whole picture, 85 % from
    twice the size, 87 % from both; in a drawing style that training never shows 46 %, 57 % and 58 % (341 and 331 things).
    """
    return (
        ExpertSource(
            "objects", "onnx", "natural objects",
            {"graph": _OBJECTS, "pixels": {"size": [256, 256], "fit": "stretch"}, "stride": 32, "width": 1392},
        ),
        ExpertSource(
            "details", "onnx", "small things",
            {"graph": _OBJECTS, "pixels": {"size": [512, 512], "fit": "stretch"}, "stride": 64, "width": 1392},
        ),
        ExpertSource(
            "regions", "onnx", "text regions",
            {"graph": _DETECTOR, "pixels": _DETECTOR_PIXELS, "stride": 32, "width": 97},
        ),
        ExpertSource(
            "reading", "words", "reading",
            {
                "detector": _DETECTOR, "detector_pixels": _DETECTOR_PIXELS,
                "recogniser": {"part": "text-recogniser", "tensors": ["softmax_11.tmp_0"]},
                "strip_pixels": {"size": [48, 320], "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "order": "bgr"},
            },
        ),
    )  # fmt: skip


def embedded_config(text_config=None, reducer: ReducerConfig = COTR, mmoe: MMoEConfig | None = None) -> LeoConfig:
    """Configuration of the embedded model; stage 2 uses reducer=KEEP_ALL and an MMoE without experts."""
    return LeoConfig(
        text_config=text_config,
        experts=embedded_experts(),
        reducer=reducer,
        mmoe=mmoe if mmoe is not None else MMoEConfig(),
        projector=ProjectorConfig(kind="residual", hidden=2048),
        expert_dropout=0.1,
        decoder_source={"part": "smollm2"},
    )


PLAIN_DECODER = replace(MMoEConfig(), num_experts=0, general=False, balance="none")
"""An MMoE without experts: the decoder as it is."""
