"""Any ONNX file as a frozen encoder: named outputs or inner tensors, reached by extending the graph in memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from leo_core.errors import CheckpointError

_QUIET = 3  # onnxruntime's log level "error": graph-optimisation warnings are no news to a user


class OnnxGraph:
    """Runs the graph up to the tensors asked for. The file on disk (and so its hash) stays as it is.

    path: the .onnx file. tensors: names of outputs or inner tensors, in the order `__call__` returns them.
    Raises CheckpointError when the file cannot be read or a tensor is not in it (near names are given).
    """

    def __init__(self, path: Path, tensors: Sequence[str], threads: int = 0):
        self.path, self.tensors, self.threads = Path(path), tuple(tensors), threads
        try:
            content = self.path.read_bytes()
            model = onnx.load_model_from_string(content)
        except FileNotFoundError:
            raise CheckpointError(f"ONNX file '{self.path.name}' does not exist; fetch the parts or correct its path.") from None
        except Exception as error:  # protobuf raises its own family of errors for damaged files
            raise CheckpointError(f"ONNX file '{self.path.name}' cannot be read ({type(error).__name__}); fetch it again.") from None
        self.sha256 = hashlib.sha256(content).hexdigest()
        self._expose(model)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, _QUIET
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self._input = self._session.get_inputs()[0].name

    def _expose(self, model: onnx.ModelProto) -> None:
        inner = {output for node in model.graph.node for output in node.output}
        missing = [name for name in self.tensors if name not in inner]
        if missing:
            outputs = ", ".join(output.name for output in model.graph.output)
            raise CheckpointError(f"ONNX file '{self.path.name}' has no tensor '{missing[0]}'; its outputs are {outputs}.")
        del model.graph.output[:]
        model.graph.output.extend(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in self.tensors)

    def __call__(self, pixels: np.ndarray) -> list[np.ndarray]:
        """pixels: float32, whatever shape the graph's first input has. One array per asked tensor."""
        return self._session.run(list(self.tensors), {self._input: pixels})

    @property
    def metadata(self) -> dict[str, str]:
        """Free text that the file's author stored in it (a recogniser's characters, for instance)."""
        return self._session.get_modelmeta().custom_metadata_map

    def __deepcopy__(self, memo):
        return self  # sessions are stateless and cannot be copied

    def __reduce__(self):
        return OnnxGraph, (self.path, self.tensors, self.threads)


class RememberingGraph(OnnxGraph):
    """Keeps its last answer, for graphs that two experts ask about the same picture (text regions and reading)."""

    def __init__(self, path: Path, tensors: Sequence[str], threads: int = 0):
        super().__init__(path, tensors, threads)
        self._last = (b"", [])

    def __call__(self, pixels: np.ndarray) -> list[np.ndarray]:
        key = hashlib.sha256(pixels).digest() + bytes(str(pixels.shape), "ascii")
        known, arrays = self._last  # one read: another thread may replace the pair meanwhile
        if known != key:
            arrays = super().__call__(pixels)
            self._last = (key, arrays)
        return arrays

    def __reduce__(self):
        return RememberingGraph, (self.path, self.tensors, self.threads)
