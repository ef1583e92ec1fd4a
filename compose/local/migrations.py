"""Bringing a data folder of an earlier release up to this one's schema: one step a version, in order, at start."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from shared.errors import DataFolderError

Migration = Callable[[Path], None]
"""Brings the folder from its version to the next. It runs under the folder's lock, before anything opens a file in it. A
machine may stop in the middle: the step is then done again from the start, so doing it twice must be doing it once.
"""


@dataclass(frozen=True)
class Schema:
    """The version of a data folder that a release writes, and the steps that lead there: ``steps[n]`` from n to n + 1."""

    version: int
    steps: Mapping[int, Migration] = field(default_factory=dict)

    def bring_up(self, folder: Path, version: int, reached: Callable[[int], None]) -> None:
        """Run the steps from ``version`` on; ``reached`` makes each version that was reached durable.

        Raises DataFolderError, before anything is changed, where a step is missing: a release too old to be brought up.
        """
        missing = [step for step in range(version, self.version) if step not in self.steps]
        if missing:
            raise DataFolderError(
                f"{folder} has schema {version}, and this release brings up none before {max(missing) + 1}: start a "
                "release between the two on it first."
            )
        for step in range(version, self.version):
            self.steps[step](folder)
            reached(step + 1)


CURRENT: Final = Schema(version=1)
"""The folder as a whole: ``journal.db``, ``knowledge/``, ``feeds/``. The files in it carry their own versions too."""
