"""Send dead letters through the stages again."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

from ingest.jobs.work import Kind, Means, Page
from ingest.lanes import Draining
from ingest.replaying import Outcome, replay_letter
from schemas.commands import Command, ReplayLetters

PAGE: Final = 50


async def total(means: Means, command: Command) -> int:
    """Count the letters."""
    del means
    return len(_letters(command))


async def pages(means: Means, command: Command, cursor: str | None, draining: Draining) -> AsyncIterator[Page]:
    """Send a page of letters, and wait until the stages are through with it. A letter that is not there counts as failed."""
    del draining
    letters = _letters(command)
    for start in range(int(cursor or 0), len(letters), PAGE):
        outcomes: Counter[Outcome] = Counter()
        page = letters[start : start + PAGE]
        for letter_id in page:
            outcomes[
                await means.hop.delivery.insist(
                    lambda letter_id=letter_id: replay_letter(letter_id, command, means.replaying)  # type: ignore[misc] # bound now
                )
            ] += 1
        await means.through()
        detail = ", ".join(f"{count} {outcome.value}" for outcome, count in sorted(outcomes.items()))
        yield Page(str(start + len(page)), len(page), outcomes[Outcome.UNKNOWN], detail)


def _letters(command: Command) -> tuple[str, ...]:
    assert isinstance(command.order, ReplayLetters)  # the table of kinds says so
    return command.order.letters


KIND: Final = Kind(total, pages)
