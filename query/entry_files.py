"""Files that say who may come in: one JSON object a line, read at the start. What is wrong is told by line, never a secret."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from shared.errors import Fault, InvalidInput

Entry = TypeVar("Entry", bound=BaseModel)


def read_entries(path: Path, name: str, entry: type[Entry], identity: str) -> list[Entry]:
    """Read a file of entries, in order; ``identity``: the field in which no two may be equal.

    Raises InvalidInput: the file cannot be read, or the line and the field that are wrong.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InvalidInput(f"the {name} file {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the {name} file {path} cannot be read: it is not UTF-8 at byte {error.start}") from error
    entries: dict[str, Entry] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path.name} line {number}"
        try:
            made = entry.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = "/".join(str(part) for part in first["loc"])
            raise InvalidInput(faults=(Fault(f"{place} {where}".strip(), first["msg"]),)) from error
        known = getattr(made, identity)
        if known in entries:
            raise InvalidInput(faults=(Fault(place, f"this {identity} stands there twice"),))
        entries[known] = made
    return list(entries.values())
