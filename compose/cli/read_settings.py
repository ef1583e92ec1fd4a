"""Settings of a command: the environment, and over it what the command was given."""

from typing import Any

from pydantic import ValidationError

from shared.errors import Fault, InvalidInput
from shared.settings import Settings


def read_settings(options: dict[str, Any]) -> Settings:
    """Read the settings. Raises InvalidInput, which names each wrong one as its variable is called."""
    try:
        return Settings(**options)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidInput(
            faults=tuple(
                Fault(
                    "_".join(("CORTEX", *(str(part).upper() for part in one["loc"]))),
                    one["msg"].removeprefix("Value error, "),
                )
                for one in found
            )
        ) from error
