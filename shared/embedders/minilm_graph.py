"""The fused int8 form of MiniLM's graph: 2 to 3 times the speed of the file it is made from, same retrieval quality."""

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np

LAYERS: Final = 6
HEADS: Final = 12
EPSILON: Final = 1e-12  # of BERT's layer normalisation
BUILD: Final = 1  # counts up when the graph changes, so that a cached one of before is not taken
DIGEST_BYTES: Final = 32


def has_vnni() -> bool:
    """Tell whether the processor multiplies int8 without saturating; elsewhere the plain file is the exact choice."""
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="ignore")
    except OSError:
        return False
    return re.search(r"\b(avx512_vnni|avx_vnni)\b", flags) is not None


def fused(weights: bytes, sha256: str, cache_dir: Path | None = None) -> bytes:
    """Return the fused graph of the weights file, from the cache folder or built anew (about 3 s).

    A cached file begins with the SHA-256 of the rest: a torn or foreign one is rebuilt. A folder that cannot be written
    costs the 3 s at each start and nothing else.
    """
    path = (cache_dir or user_cache()) / f"minilm-fused-int8-{BUILD}-{sha256[:16]}.onnx"
    cached = _read(path)
    if cached is not None:
        return cached
    model = build(weights)
    _write(path, model)
    return model


def user_cache() -> Path:
    """Return the folder of caches that may vanish at any time (XDG base directory specification)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path(os.environ.get("HOME", "/nonexistent"), ".cache")
    return root / "cortex"


def _read(path: Path) -> bytes | None:
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, model = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    return model if hashlib.sha256(model).digest() == digest else None


def _write(path: Path, model: bytes) -> None:
    """Keep it by an atomic rename: a reader sees the whole file or none, and the last of two builders wins."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    except OSError:
        return  # the folder cannot be written: the caller has the model, only the next start builds again
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(hashlib.sha256(model).digest() + model)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)


def build(weights: bytes) -> bytes:
    """Write the network anew with onnxruntime's fused operators and quantise its products to int8 per channel."""
    import onnx  # noqa: PLC0415 - 0.3 s and 30 MB that only a first start needs
    from onnxruntime.quantization import QuantType, quantize_dynamic  # noqa: PLC0415 - imports onnx

    source = onnx.load_from_string(weights)
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in source.graph.initializer}
    with tempfile.TemporaryDirectory(prefix="cortex-minilm-") as folder:
        float_file, int8_file = Path(folder, "float.onnx"), Path(folder, "int8.onnx")
        onnx.save(_Graph(tensors).model(), float_file)
        quantize_dynamic(
            float_file,
            int8_file,
            weight_type=QuantType.QInt8,
            per_channel=True,
            op_types_to_quantize=["MatMul", "Attention"],
            extra_options={"MatMulConstBOnly": True, "DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        return int8_file.read_bytes()


class _Graph:
    """Collects nodes and constants. Input ``input_ids`` (1, tokens); no mask, as a run has one text and no padding."""

    def __init__(self, tensors: dict[str, Any]) -> None:
        self._tensors = tensors
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def model(self) -> Any:
        import onnx  # noqa: PLC0415 - see build
        from onnx import helper  # noqa: PLC0415 - see build

        state = self._embed()
        matrices = self._matrices()
        for layer in range(LAYERS):
            state = self._layer(layer, state, matrices[layer * 6 : layer * 6 + 6])
        self._nodes[-1].output[0] = "last_hidden_state"
        graph = helper.make_graph(
            self._nodes,
            "minilm-fused",
            [helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, [1, "tokens"])],
            [helper.make_tensor_value_info("last_hidden_state", onnx.TensorProto.FLOAT, [1, "tokens", 384])],
            [onnx.numpy_helper.from_array(value, name) for name, value in self._constants.items()],
        )
        domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=domains, ir_version=8)
        # says that shape inference has nothing to add, which keeps the quantiser from warning about it
        model.metadata_props.add(key="onnx.quant.pre_process", value="onnxruntime.quant")
        return model

    def _embed(self) -> str:
        """Word embeddings stay int8 with a scale a row, as in the source; position and type are one small table."""
        import onnx  # noqa: PLC0415 - see build

        prefix = "inner.embeddings"
        words = f"{prefix}.word_embeddings.weight"
        positions = self._dequantized(f"{prefix}.position_embeddings.weight")
        table = positions + self._tensors[f"{prefix}.token_type_embeddings.weight"][0]
        rows = self._node("Gather", [self._keep("words", self._tensors[f"{words}_q"]), "input_ids"])
        scales = self._node("Gather", [self._keep("scales", self._tensors[f"{words}_scale"]), "input_ids"])
        values = self._node("Cast", [rows], to=onnx.TensorProto.FLOAT)
        word = self._node("Mul", [values, scales])
        # Shape and Slice, not Range and Gather: onnxruntime 1.32 fuses those wrongly
        length = self._node("Shape", ["input_ids"], start=1, end=2)
        zero, axis = self._keep("zero", np.array([0], np.int64)), self._keep("axis", np.array([0], np.int64))
        place = self._node("Slice", [self._keep("places", table.astype(np.float32)), zero, length, axis])
        both = self._node("Add", [word, place])
        norm = [self._own(f"{prefix}.LayerNorm.weight"), self._own(f"{prefix}.LayerNorm.bias")]
        return self._node("LayerNormalization", [both, *norm], axis=-1, epsilon=EPSILON)

    def _layer(self, layer: int, state: str, matrices: list[Any]) -> str:
        query, key, value, attended, widen, narrow = matrices
        prefix = f"inner.encoder.layer.{layer}"
        projection = self._keep(f"{layer}.qkv", np.concatenate([query, key, value], axis=1))
        biases = [self._tensors[f"{prefix}.attention.self.{part}.bias"] for part in ("query", "key", "value")]
        bias = self._keep(f"{layer}.qkv.bias", np.concatenate(biases))
        context = self._node("Attention", [state, projection, bias], domain="com.microsoft", num_heads=HEADS)
        state = self._add_and_norm(f"{prefix}.attention.output", self._times(context, f"{layer}.out", attended), state)
        wide = self._times(state, f"{layer}.widen", widen)
        gelu = self._node("BiasGelu", [wide, self._own(f"{prefix}.intermediate.dense.bias")], domain="com.microsoft")
        return self._add_and_norm(f"{prefix}.output", self._times(gelu, f"{layer}.narrow", narrow), state)

    def _add_and_norm(self, prefix: str, update: str, state: str) -> str:
        names = (f"{prefix}.LayerNorm.weight", f"{prefix}.LayerNorm.bias", f"{prefix}.dense.bias")
        inputs = [update, state, *(self._own(name) for name in names)]
        return self._node("SkipLayerNormalization", inputs, domain="com.microsoft", epsilon=EPSILON)

    def _times(self, left: str, name: str, matrix: Any) -> str:
        return self._node("MatMul", [left, self._keep(name, matrix)])

    def _matrices(self) -> list[Any]:
        """Return the 36 matrices in the file's order: query, key, value, attention output, widen, narrow, by layer."""
        numbers = sorted(int(match[1]) for name in self._tensors if (match := re.fullmatch(r"val_(\d+)_q", name)))
        if len(numbers) != LAYERS * 6:
            msg = f"{len(numbers)} matrices in the weights, expected {LAYERS * 6}"
            raise RuntimeError(msg)
        return [self._dequantized(f"val_{number}") for number in numbers]

    def _dequantized(self, name: str) -> Any:
        return self._tensors[f"{name}_q"].astype(np.float32) * self._tensors[f"{name}_scale"]

    def _own(self, name: str) -> str:
        return self._keep(name, self._tensors[name])

    def _keep(self, name: str, value: Any) -> str:
        self._constants[name] = np.ascontiguousarray(value)
        return name

    def _node(self, kind: str, inputs: list[str], **attributes: Any) -> str:
        from onnx import helper  # noqa: PLC0415 - see build

        output = f"{kind}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output
