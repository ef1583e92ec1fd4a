"""Incoming webhooks by the Standard Webhooks specification: whose they are, by their signature, and how many there may be.

The library knows the signature: HMAC-SHA256 over id, timestamp and body, several signatures a message, five minutes' tolerance.
A signature that it cannot even read is no better than a wrong one. What is signed are bytes: whether they are text is asked
of whoever has signed them.
"""

import binascii
import hashlib
import hmac
import math
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints
from standardwebhooks import Webhook, WebhookVerificationError

from query.entry_files import read_entries
from query.quotas import Bucket
from schemas.base import Strict
from schemas.units import TenantId
from shared.clock import Clock
from shared.errors import BadSignature, InvalidInput, RateLimited, UnknownThing
from shared.settings import Settings

BODY_BYTES: Final = 64 * 1024  # a selection of a thousand ids, and room
PREFIX: Final = "whsec_"
SECRET_BYTES: Final = (24, 64)  # the specification's bounds
SECRETS: Final = 200  # a message is tried with each: 0.1 ms for the largest body
HEADER_CHARS: Final = 8_192  # as servers bound a line; no signature is looked at beyond it
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def _checked(secret: str) -> str:
    least, most = SECRET_BYTES
    try:
        size = len(b64decode(secret.removeprefix(PREFIX), validate=True))
    except binascii.Error as error:
        msg = "not base64"
        raise ValueError(msg) from error
    if not least <= size <= most:
        msg = f"{size} bytes; a secret has {least} to {most}"
        raise ValueError(msg)
    return secret


class WebhookSecret(Strict):
    """One line of the secrets file. A tenant may have several: while they are rotated both count."""

    tenant: TenantId
    secret: Annotated[str, StringConstraints(pattern=f"^{PREFIX}"), AfterValidator(_checked), Field(repr=False)]


@dataclass(frozen=True)
class Signed:
    """A message whose signature holds: whose it is, and its id, under which it comes again when it is sent again."""

    tenant: str
    message_id: str

    @property
    def command_id(self) -> str:
        """The name of what it orders: the same message is the same order, for good."""
        return f"webhook-{hashlib.sha256(self.message_id.encode('utf-8', 'replace')).hexdigest()[:32]}"


class _OfBytes(Webhook):
    """The library's rules for any bytes: it takes text alone, so bytes that are none come with surrogates in their places."""

    def sign(self, msg_id: str, timestamp: datetime, data: str) -> str:
        seconds = math.floor(timestamp.replace(tzinfo=UTC).timestamp())
        signed = f"{msg_id}.{seconds}.{data}".encode("utf-8", "surrogateescape")
        return f"v1,{b64encode(hmac.digest(self._whsecret, signed, 'sha256')).decode()}"

    def holds(self, body: bytes, headers: dict[str, str]) -> bool:
        """Tell whether a body has come with its signature, and in time."""
        try:
            self.verify(body.decode("utf-8", "surrogateescape"), headers, json_parse=False)
        except (WebhookVerificationError, ValueError, OverflowError):  # it lets what is malformed through as ValueError
            return False
        return True


class Webhooks:
    """Knows the secrets and counts what each tenant sends."""

    def __init__(self, entries: Sequence[WebhookSecret], per_minute: int, clock: Clock) -> None:
        self._secrets = [(entry.tenant, _OfBytes(entry.secret)) for entry in entries]
        now_s = clock.monotonic()
        self._per_minute = per_minute
        self._buckets = {entry.tenant: Bucket(per_minute / 60, float(per_minute), now_s) for entry in entries}
        self._clock = clock

    def check_configured(self) -> None:
        """Raise UnknownThing where there are no secrets: then nobody can send any."""
        if not self._secrets:
            raise UnknownThing("no webhooks are configured here: set CORTEX_WEBHOOK_SECRETS_FILE")

    def verify(self, body: bytes, headers: Mapping[str, str]) -> Signed:
        """Say whose message it is. Raises BadSignature; which part was wrong is not told."""
        named = {name: headers.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE)}
        if max(len(value) for value in named.values()) <= HEADER_CHARS:
            for tenant, webhook in self._secrets:
                if webhook.holds(body, named):
                    return Signed(tenant, named[ID])
        raise BadSignature

    def count(self, tenant: str) -> None:
        """Take one of the tenant's share. Raises RateLimited with the seconds until there is one."""
        bucket, now_s = self._buckets[tenant], self._clock.monotonic()
        wait_s = bucket.wait_s(1, now_s)
        if wait_s > 0:
            raise RateLimited(
                f"more than {self._per_minute} webhooks a minute; equal ones need not be repeated",
                retry_after_s=math.ceil(wait_s),
            )
        bucket.take(1, now_s)


def configured_secrets(settings: Settings) -> tuple[WebhookSecret, ...]:
    """Read the secrets file, where there is one. Raises InvalidInput."""
    return () if settings.webhook_secrets_file is None else read_secrets(settings.webhook_secrets_file)


def read_secrets(path: Path) -> tuple[WebhookSecret, ...]:
    """Read a secrets file: one JSON object a line. Raises InvalidInput naming the line, never the secret."""
    entries = read_entries(path, "webhook secrets", WebhookSecret, "secret")
    if not entries or len(entries) > SECRETS:
        raise InvalidInput(f"the webhook secrets file {path} holds {len(entries)} secrets, of 1 to {SECRETS}")
    return tuple(entries)
