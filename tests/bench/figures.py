"""Percentiles, and the report that a bench run prints and writes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99 in the unit of the values, rounded to a hundredth."""
    if not values:
        return {}
    p50, p95, p99 = np.percentile(np.asarray(values), [50, 95, 99])
    return {"p50": round(float(p50), 2), "p95": round(float(p95), 2), "p99": round(float(p99), 2), "n": len(values)}


@dataclass
class Report:
    """Named figures in the order in which they were taken."""

    figures: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, value: Any) -> None:
        """Keep a figure and print it."""
        self.figures[name] = value
        shown = "  ".join(f"{key} {part}" for key, part in value.items()) if isinstance(value, dict) else value
        print(f"{name:44} {shown}", flush=True)

    def write(self, path: Path) -> None:
        """Write all figures as JSON."""
        path.write_text(json.dumps(self.figures, indent=1))
