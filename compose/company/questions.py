"""Questions to try on the company, and what must be among the first results of each: its golden test."""

from dataclasses import dataclass

TO_TRY = (
    "why did we choose PostgreSQL for the ledger?",
    "what is the retry limit of the payments gateway?",
    "who knows about the pier kiosks?",
)


@dataclass(frozen=True)
class Golden:
    """A question, who asks (none: the trusted caller), and unit ids that belong to the first five results."""

    question: str
    expected: tuple[str, ...]
    principal: str | None = None
    conflict: tuple[str, str] | None = None
    absent: tuple[str, ...] = ()


GOLDEN = (
    Golden("why did we choose PostgreSQL for the ledger?", ("dec-001",)),
    Golden(
        "what is the retry limit of the payments gateway?", ("fact-002", "fact-001"), conflict=("fact-001", "fact-002")
    ),
    Golden("who is the on-call lead for the autumn?", ("fact-003", "fact-004"), conflict=("fact-003", "fact-004")),
    Golden(
        "are offline ticket sales enabled on the kiosks?", ("fact-005", "fact-006"), conflict=("fact-005", "fact-006")
    ),
    Golden("when does Project Harbour end?", ("fact-007", "fact-008"), conflict=("fact-007", "fact-008")),
    Golden("how long is a held seat kept?", ("fact-009", "fact-010"), conflict=("fact-009", "fact-010")),
    Golden("do services call sailing search over REST or gRPC?", ("dec-005",), absent=("dec-004",)),
    Golden("who knows about the pier kiosks?", ("fact-005",)),
    Golden("how do we deploy a service?", ("cmd-001",)),
    Golden("how do I roll back the notifier?", ("cmd-002",)),
    Golden("why was a traveller charged twice?", ("fix-001",)),
    Golden("the kiosk shows a white screen", ("fix-003",)),
    Golden("SeatHoldExpired on the payment page", ("fix-002",)),
    Golden("what is our policy on remote database access?", ("pol-001",)),
    Golden("when does the summer timetable start?", ("fact-011",)),
    Golden("may I work from home?", ("pol-003",)),
    Golden("why did the refunds from the storm weekend not go through?", ("con-003",)),
    Golden("which services has Project Harbour already moved?", ("sum-003",)),
    Golden("what happened on 2 September 2026?", ("sum-004",)),
    Golden("how do I post a debit and a credit to the ledger?", ("code-002",)),
    Golden("why are there no deploys on Fridays?", ("dec-007",)),
    Golden("how do I restart a kiosk from afar?", ("cmd-004",)),
    Golden("who pays for the night sailing to Vaer?", ("cli-001",), principal="person-farah"),
    Golden("who pays for the night sailing to Vaer?", (), principal="person-jonas", absent=("cli-001",)),
    Golden("what is the budget of the salary round?", ("hr-001",), principal="person-lena"),
    Golden("what is the budget of the salary round?", (), principal="person-ben", absent=("hr-001", "hr-002")),
    Golden("parental leave from February", (), principal="person-ines", absent=("note-002",)),
)
"""As principals are members of teams: Farah reads her own notes, Lena the People team's."""
