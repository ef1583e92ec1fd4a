"""Where an accepted event stands in the log, and the opaque token of that place."""

import base64
import binascii
import json
from typing import Annotated

from pydantic import Field, ValidationError

from schemas.base import NUMBER, Strict


class Position(Strict):
    """A place in a log: ``log`` names it (so that a token of another installation is refused); ``number`` counts up.

    Locally the number is the journal's row, on Kafka the record's offset in its partition.
    """

    log: str = Field(min_length=1, max_length=64)
    topic: str = Field(min_length=1, max_length=249)
    partition: Annotated[int, Field(ge=0), NUMBER]
    number: Annotated[int, Field(ge=0), NUMBER]

    def token(self) -> str:
        """Write the position as an opaque string, safe in addresses."""
        packed = json.dumps([self.log, self.topic, self.partition, self.number], separators=(",", ":")).encode()
        return base64.urlsafe_b64encode(packed).rstrip(b"=").decode()

    @classmethod
    def from_token(cls, token: str) -> "Position":
        """Read a token; raises ValueError when it is not one of ours."""
        try:
            packed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            log, topic, partition, number = json.loads(packed)
            return cls(log=log, topic=topic, partition=partition, number=number)
        except (binascii.Error, ValueError, TypeError, ValidationError, UnicodeEncodeError) as error:
            msg = "not a token of this service"
            raise ValueError(msg) from error


class PartitionWatermark(Strict):
    """Up to which number a partition's events of a tenant are stored, and how many accepted ones still wait."""

    topic: str
    partition: int
    number: int = Field(ge=-1, description="-1: nothing yet")
    lag: int = Field(ge=0)
