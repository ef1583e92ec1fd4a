"""A small company that is asked about, and how its tests ask."""

from pathlib import Path

from schemas.questions import Question
from tests.integration.knowledge import Knowledge, entity, relation, unit

STAGES = [
    "intent",
    "entities",
    "weights",
    "keyword",
    "search",
    "fusion",
    "conflicts",
    "structured",
    "context",
    "complete",
]


async def small_company(folder: Path) -> Knowledge:
    """Open what a small company knows: Ana is in Platform, which is in Engineering; HR is none of her business."""
    knowledge = Knowledge(folder)
    await knowledge.teach(
        entity("ana", "person", "Ana Silva"),
        entity("platform", "team", "Platform"),
        entity("engineering", "department", "Engineering"),
        entity("hr", "team", "HR"),
        relation("ana", "member_of", "platform"),
        relation("platform", "part_of", "engineering"),
        unit("pool-50", "The connection pool of the ledger has 50 connections at most.", occurred_at="2026-01-05"),
        unit(
            "pool-20",
            "The connection pool of the ledger has 20 connections at most.",
            occurred_at="2026-02-05",
            source="test://chat",
        ),
        unit(
            "deploy",
            "To deploy the ledger, run make release on the build host.",
            type="command",
            occurred_at="2026-02-10",
        ),
        unit("note", "My notes: the ledger deploy takes four minutes.", "personal/ana"),
        unit("rules", "Deployments of the ledger need two approvals.", "department/engineering", type="decision"),
        unit("salaries", "The salaries of the ledger team are listed in the vault.", "team/hr"),
    )
    return knowledge


async def ask(knowledge, q, *, principal="ana", tenant="demo", assembly=None, **given):
    return await (assembly or knowledge.assembly()).answer(Question(q=q, **given), tenant=tenant, principal=principal)


def ids(answer):
    return [result.unit_id for result in answer.results]
