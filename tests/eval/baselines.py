"""What a few lines of well-known code reach on the same texts and questions: BM25, vectors, and both fused by RRF."""

from collections.abc import Sequence

import bm25s
import numpy as np
import snowballstemmer

from tests.eval.datasets import Dataset

DEPTH = 100
Ranking = list[frozenset[str]]


class _Stemmer:
    """Fits snowballstemmer to what bm25s calls."""

    def __init__(self) -> None:
        self._stem = snowballstemmer.stemmer("english").stemWords

    def __call__(self, words: Sequence[str]) -> list[str]:
        return self._stem(list(words))


def bm25(dataset: Dataset, depth: int = DEPTH) -> list[list[str]]:
    """Rank by BM25 (Lucene variant, k1 1.5, b 0.75, English stop words and stemmer), statistics per group."""
    stemmer = _Stemmer()
    indexes = {}
    for group in {item.where for item in dataset.items}:
        members = [item for item in dataset.items if item.where == group]
        tokens = bm25s.tokenize([_text(item) for item in members], stopwords="en", stemmer=stemmer, show_progress=False)
        index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        index.index(tokens, show_progress=False)
        indexes[group] = (index, [item.id for item in members])
    rankings = []
    for question in dataset.questions:
        index, ids = indexes[question.where]
        words = bm25s.tokenize([question.text], stopwords="en", stemmer=stemmer, show_progress=False)
        found, scores = index.retrieve(words, k=min(depth, len(ids)), show_progress=False)
        rankings.append([ids[row] for row, score in zip(found[0], scores[0], strict=True) if score > 0])
    return rankings


def vectors(
    dataset: Dataset, embedded: dict[str, np.ndarray], asked: Sequence[np.ndarray], depth: int = DEPTH
) -> list[list[str]]:
    """Rank by cosine (the best of a text's chunks), within the group."""
    groups = {}
    for group in {item.where for item in dataset.items}:
        ids = [item.id for item in dataset.items if item.where == group for _ in embedded[item.id]]
        groups[group] = (ids, np.concatenate([embedded[item.id] for item in dataset.items if item.where == group]))
    rankings = []
    for question, vector in zip(dataset.questions, asked, strict=True):
        ids, matrix = groups[question.where]
        order = np.argsort(-(matrix @ vector), kind="stable")
        rankings.append(list(dict.fromkeys(ids[row] for row in order))[:depth])
    return rankings


def fused(first: list[list[str]], second: list[list[str]], k: int) -> list[list[str]]:
    """Fuse two rankings a question by reciprocal rank (Cormack et al. 2009)."""
    merged = []
    for lists in zip(first, second, strict=True):
        scores: dict[str, float] = {}
        for ranked in lists:
            for rank, item in enumerate(ranked, start=1):
                scores[item] = scores.get(item, 0.0) + 1 / (k + rank)
        merged.append(sorted(scores, key=lambda item: (-scores[item], item)))
    return merged


def places(rankings: list[list[str]]) -> list[Ranking]:
    """Write rankings of single ids as rankings of places."""
    return [[frozenset({item}) for item in ranked] for ranked in rankings]


def _text(item: object) -> str:
    title = item.unit.get("title")  # type: ignore[attr-defined]
    return f"{title}\n{item.text}" if title else item.text  # type: ignore[attr-defined]
