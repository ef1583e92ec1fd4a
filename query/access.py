"""Who may do what (design, section 9): bearer tokens, rights, and the caller they make."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from query.entry_files import read_entries
from schemas.base import Strict
from schemas.entities import ORGANISATIONAL
from schemas.events import Event, RelationDeclared, RelationRetracted
from schemas.units import Identifier, TenantId
from shared.errors import Fault, Forbidden, InvalidInput, Unauthenticated
from shared.settings import LOOPBACK, Settings

TENANT_HEADER = "cortex-tenant"
TOKENS_MAX = 10_000  # a file of bearer tokens is read into memory at start
TOKEN_CHARS = 4_096  # a longer one is none of ours; it is not even hashed

_TENANT: TypeAdapter[str] = TypeAdapter(TenantId)


class Right(StrEnum):
    """What a token may do."""

    ASK = "ask"
    PUBLISH = "publish"
    ADMIN = "admin"


class TokenEntry(Strict):
    """One line of the tokens file: the SHA-256 of the token, never the token. ``principal`` ``*``: bound to nobody."""

    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    tenant: TenantId
    principal: Identifier | Literal["*"]
    rights: Annotated[frozenset[Right], Field(min_length=1)]


@dataclass(frozen=True)
class Caller:
    """Whoever sent the request.

    ``principal`` None reads every scope of the tenant: the trusted caller, and a token that is bound to nobody (``*``).
    ``named_tenant``: the request itself named the tenant.
    """

    tenant: str
    principal: str | None
    rights: frozenset[Right]
    trusted: bool = False
    named_tenant: bool = False

    def needs(self, right: Right, or_right: Right | None = None) -> None:
        """Refuse a caller without the right, or another that will do as well. Raises Forbidden."""
        if right not in self.rights and or_right not in self.rights:
            raise Forbidden(f"this needs the right {right.value!r}, which the token does not carry")

    def asks_as(self, principal: str | None) -> str | None:
        """Return whose memberships decide what may be read. Another principal than the token's needs ``admin``."""
        if principal is None or principal == self.principal:
            return self.principal
        if self.principal is not None and Right.ADMIN not in self.rights:
            raise Forbidden("asking as another principal than the token's needs the right 'admin'")
        return principal

    def may_publish(self, event: Event, pointer: str = "") -> None:
        """Refuse events of another tenant, and organisational relations without ``admin``. Raises Forbidden."""
        if event.tenant != self.tenant and (not self.trusted or self.named_tenant):
            raise Forbidden(f"{pointer}/tenant: the event is of another tenant than the caller")
        organisational = (
            isinstance(event, RelationDeclared | RelationRetracted) and event.data.relation in ORGANISATIONAL
        )
        if organisational and Right.ADMIN not in self.rights:
            raise Forbidden(f"{pointer}/data/relation: relations that decide what may be read need the right 'admin'")


class Access:
    """Knows the tokens. Without any, everybody who reaches us (over loopback) is trusted."""

    def __init__(self, default_tenant: str, tokens: Mapping[str, TokenEntry] | None) -> None:
        self._default_tenant = default_tenant
        self._tokens = tokens

    @classmethod
    def from_settings(cls, settings: Settings) -> "Access":
        """Read the tokens file. Without one, refuses (Forbidden) to listen on anything but loopback."""
        if settings.tokens_file is None:
            if settings.host not in LOOPBACK:
                raise Forbidden(
                    f"listening on {settings.host} would let anybody in: set CORTEX_TOKENS_FILE, or listen on loopback"
                )
            return cls(settings.tenant, None)
        return cls(settings.tenant, read_tokens(settings.tokens_file))

    @property
    def trusts_everybody(self) -> bool:
        """Whether no tokens are configured."""
        return self._tokens is None

    def caller(self, headers: Mapping[str, str], tenant_parameter: str | None) -> Caller:
        """Say who calls. Raises Unauthenticated, Forbidden (another tenant) or InvalidInput (no such tenant name)."""
        named = _named_tenant(headers, tenant_parameter)
        if self._tokens is None:
            return Caller(
                tenant=named or self._default_tenant,
                principal=None,
                rights=frozenset(Right),
                trusted=True,
                named_tenant=named is not None,
            )
        entry = self._tokens.get(_presented(headers))
        if entry is None:
            raise Unauthenticated
        if named is not None and named != entry.tenant:
            raise Forbidden("the token is of another tenant")
        principal = None if entry.principal == "*" else entry.principal
        return Caller(tenant=entry.tenant, principal=principal, rights=entry.rights)


def hash_token(token: str) -> str:
    """Return the SHA-256 of a token in hex: what the tokens file holds.

    Looking a hash up leaks nothing about the tokens that exist through its timing.
    """
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def _presented(headers: Mapping[str, str]) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > TOKEN_CHARS:
        raise Unauthenticated
    return hash_token(token)


def _named_tenant(headers: Mapping[str, str], parameter: str | None) -> str | None:
    header = headers.get(TENANT_HEADER)
    if header is not None and parameter is not None and header != parameter:
        raise InvalidInput(faults=(Fault("tenant", "the parameter and the header Cortex-Tenant name two tenants"),))
    named = parameter if parameter is not None else header
    if named is None:
        return None
    try:
        return _TENANT.validate_python(named)
    except ValidationError as error:
        fault = Fault("tenant", "not a tenant's name", limit="1 to 63 of a-z, 0-9, '_' and '-'")
        raise InvalidInput(faults=(fault,)) from error


def read_tokens(path: Path) -> dict[str, TokenEntry]:
    """Read a tokens file: one JSON object a line. Raises InvalidInput naming the line, also for a file without tokens."""
    tokens = {entry.sha256: entry for entry in read_entries(path, "tokens", TokenEntry, "sha256")}
    if not tokens:
        raise InvalidInput(f"the tokens file {path} holds no token: nobody could come in")
    if len(tokens) > TOKENS_MAX:
        raise InvalidInput(f"the tokens file {path} holds more than {TOKENS_MAX} tokens")
    return tokens
