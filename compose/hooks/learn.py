"""The learn hook: a finished exchange in, what is worth keeping published. It prints nothing and never fails an agent."""

import getpass
import hashlib
import re
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from compose.hooks.exchange import Exchange, read_exchange
from compose.hooks.options import Options
from compose.hooks.wire import NoAnswer, Reply, Service
from compose.hooks.worth import Finding, worth_keeping

BATCH_TYPE: Final = "application/cloudevents-batch+json"
ACCEPTED: Final = 202
CONFIDENCE: Final = 0.6
"""Rules over sentences are right more often than not, and nobody has looked."""
SCOPE: Final = re.compile(r"^(personal|team|department|organization)/(\S+)$")


def learn_exchange(given: str, options: Options, deadline: float) -> str:
    """Publish what an exchange teaches, and return the empty string. Raises NoAnswer, ValueError, OSError."""
    exchange = read_exchange(given)
    if exchange is None:
        return ""
    found = without_secrets(worth_keeping(exchange.prompt, exchange.response, exchange.outputs))
    if not found:
        return ""
    service = Service(options.url, options.token, options.tenant, deadline)
    tenant, principal = _who_am_i(service, options)
    events = events_of(found, exchange, tenant=tenant, principal=principal, scope=options.scope)
    reply = service.call("POST", "/v1/events", events, BATCH_TYPE)
    if reply.status != ACCEPTED:
        raise NoAnswer(f"refused with {reply.status}: {_detail(reply)}")
    return ""


def without_secrets(found: Sequence[Finding]) -> list[Finding]:
    """Leave out every finding in which a secret was seen: it could not be called back from the log."""
    from compose.feeds.secrets import find_secrets  # noqa: PLC0415 - most exchanges teach nothing and need no detector

    return [finding for finding in found if not find_secrets(finding.text)]


def events_of(
    found: Sequence[Finding], exchange: Exchange, *, tenant: str, principal: str, scope: str | None
) -> list[dict[str, Any]]:
    """Return one assertion a finding. Ids are made from what was said: the same exchange again changes nothing, and the
    same sentence of a later session is the same unit.
    """
    level, entity_id = _scope_of(scope, principal)
    source = f"urn:cortex:hook:{quote(exchange.agent, safe='')}"
    events = []
    for kind, text in found:
        unit_id = f"learnt/{_digest(level, entity_id, kind, text)}"
        unit: dict[str, Any] = {
            "id": unit_id,
            "text": text,
            "type": kind,
            "scope": {"level": level, "entity_id": entity_id},
            "origin": {"source_type": "conversation", "creator_entity_id": principal},
            "confidence": CONFIDENCE,
            "occurred_at": exchange.at or time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "agent": exchange.agent,
        }
        session = _identifier(exchange.session) if exchange.session else None
        if session:
            unit["session_id"] = session
            unit["origin"]["source_ref"] = f"{exchange.agent} session {session}"
        if exchange.project:
            unit["project"] = exchange.project[:500]
        said = _digest(unit_id, session or "", exchange.prompt, exchange.response)
        events.append(
            {
                "specversion": "1.0",
                "id": f"{unit_id}/{said}",
                "source": source,
                "tenant": tenant,
                "type": "unit.asserted",
                "data": unit,
            }
        )
    return events


def _scope_of(scope: str | None, principal: str) -> tuple[str, str]:
    """Return (level, entity). What is no scope is not guessed at: it stays personal."""
    match = SCOPE.match(scope or "")
    return (match[1], match[2]) if match else ("personal", principal)


def _who_am_i(service: Service, options: Options) -> tuple[str, str]:
    """Return (tenant, principal): as told, else as the service knows us, else the name of this machine's user.

    A question of two characters is answered at once with nothing but who asked it.
    """
    if options.tenant and options.principal:
        return options.tenant, options.principal
    reply = service.call("GET", "/v1/search?q=me")
    if reply.status != 200 or not isinstance(reply.body, dict):
        raise NoAnswer(f"refused with {reply.status}: {_detail(reply)}")
    known = _identifier(str(reply.body.get("principal") or "").strip("*"))
    return options.tenant or str(reply.body["tenant"]), options.principal or known or local_principal()


def local_principal() -> str:
    """Return who works on this machine, as an entity: the one to whom belongs what nobody else is named for."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        name = "me"
    return f"person-{_identifier(name) or 'me'}"


def _identifier(text: str) -> str:
    return re.sub(r"[\s\x00-\x1f\x7f/]+", "-", text).strip("-")[:200]


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\x1e".join(parts).encode("utf-8", "replace"), digest_size=10).hexdigest()


def _detail(reply: Reply) -> str:
    return str(reply.body.get("detail", "")) if isinstance(reply.body, dict) else ""
