"""What a process remembers of the topics of dead letters and of commands: replicas in memory, folded from their records."""

from collections import OrderedDict, deque
from datetime import datetime

from pydantic import ValidationError

from schemas.commands import Command
from schemas.status import DeadLetter, LetterMark
from shared import jobs_kept
from shared.letters import KEPT as LETTERS_KEPT
from shared.letters import LetterFilter, buried, listed, marked

LETTERS = 10_000
"""Dead letters that are remembered, the newest: with bodies of 1 kB some 10 MB; older ones stay on their topic."""
LETTER_BYTES = 64 * 1024 * 1024
COMMANDS = 10_000


class LetterShelf:
    """The newest dead letters and what was done about them."""

    def __init__(self) -> None:
        self._letters: OrderedDict[str, DeadLetter] = OrderedDict()
        self._bytes = 0

    def take(self, said: DeadLetter | tuple[str, LetterMark]) -> None:
        """Take a burial or a mark, as they come on the topic."""
        if isinstance(said, DeadLetter):
            known = self._letters.pop(said.id, None)
            self._bytes -= 0 if known is None else len(known.body)
            self._letters[said.id] = buried(known, said)
            self._bytes += len(said.body)
            while len(self._letters) > LETTERS or (self._bytes > LETTER_BYTES and len(self._letters) > 1):
                self._bytes -= len(self._letters.popitem(last=False)[1].body)
            return
        letter_id, mark = said
        known = self._letters.get(letter_id)
        if known is not None:
            self._letters[letter_id] = marked(known, mark)

    def get(self, letter_id: str) -> DeadLetter | None:
        """Return a letter."""
        return self._letters.get(letter_id)

    def listed(self, wanted: LetterFilter, limit: int, after: str | None, now: datetime) -> list[DeadLetter]:
        """Return letters of the last 30 days, newest first; an ``after`` that is not there gives none."""
        kept = {letter.id: letter for letter in self._letters.values() if now - letter.failed_at <= LETTERS_KEPT}
        return listed(kept, wanted, limit, after)


class CommandShelf:
    """The newest commands: as many of a tenant as jobs are kept, and `COMMANDS` in all."""

    def __init__(self) -> None:
        self._commands: OrderedDict[tuple[str, str], Command] = OrderedDict()
        self._ids: dict[str, deque[str]] = {}

    def take(self, body: bytes | None) -> None:
        """Take a record of the topic; of one id the first counts."""
        try:
            command = Command.model_validate_json(body or b"")
        except ValidationError:
            return
        self.put(command)

    def put(self, command: Command) -> bool:
        """Remember a command; False where it is known."""
        if (command.tenant, command.id) in self._commands:
            return False
        self._commands[command.tenant, command.id] = command
        ids = self._ids.setdefault(command.tenant, deque())
        ids.append(command.id)
        if len(ids) > jobs_kept.KEPT:
            del self._commands[command.tenant, ids.popleft()]
        if len(self._commands) > COMMANDS:
            (tenant, _), _ = self._commands.popitem(last=False)  # the oldest of all is the oldest of its tenant too
            self._ids[tenant].popleft()
            if not self._ids[tenant]:
                del self._ids[tenant]
        return True

    def listed(self, tenant: str, command_id: str | None, limit: int) -> list[Command]:
        """Return a tenant's commands, newest first, or the one of an id."""
        found = [
            command
            for command in self._commands.values()
            if command.tenant == tenant and command_id in (None, command.id)
        ]
        return sorted(found, key=lambda command: (command.requested_at, command.id), reverse=True)[:limit]
