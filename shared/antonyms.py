"""Words that exclude each other: a small table for engineering and business language, and the negating prefixes."""

from functools import cache
from types import MappingProxyType
from typing import Final

_PAIRS: Final = """
enable/disable enabled/disabled on/off open/closed opened/closed open/close opened/shut up/down online/offline
active/inactive active/idle activate/deactivate activated/deactivated alive/dead running/stopped start/stop
started/stopped begin/end begins/ends began/ended allow/forbid allowed/forbidden allow/deny allowed/denied allow/block
allowed/blocked permit/prohibit permitted/prohibited permit/forbid allow/prohibit allowed/prohibited
allowed/disallowed allowed/banned mandatory/optional required/optional compulsory/voluntary obligatory/optional
required/forbidden require/forbid accept/reject accepted/rejected accept/refuse accepted/refused approve/reject
approved/rejected approved/denied approve/decline approved/declined grant/revoke granted/revoked granted/denied
grant/deny pass/fail passed/failed passing/failing passes/fails succeed/fail succeeded/failed success/failure
successful/failed increase/decrease increased/decreased rise/fall rose/fell raised/lowered raise/lower grow/shrink
grew/shrank gain/loss gained/lost profit/loss upgrade/downgrade upgraded/downgraded improve/worsen improved/worsened
improves/degrades improved/degraded expand/contract expanded/contracted accelerate/slow before/after earlier/later
early/late first/last old/new fast/slow faster/slower fastest/slowest quick/slow high/low higher/lower highest/lowest
big/small bigger/smaller large/small larger/smaller largest/smallest long/short longer/shorter longest/shortest
many/few more/less most/least more/fewer maximum/minimum max/min above/below over/under inside/outside
internal/external inbound/outbound incoming/outgoing ingress/egress upstream/downstream public/private
shared/dedicated shared/private synchronous/asynchronous sync/async blocking/non-blocking online/batch
manual/automatic manually/automatically manual/automated static/dynamic mutable/immutable persistent/ephemeral
permanent/temporary persistent/transient stateful/stateless local/remote central/distributed centralized/decentralized
centralised/decentralised monolithic/distributed coupled/decoupled tight/loose strict/lenient strict/loose safe/unsafe
safe/dangerous safe/risky secure/vulnerable clean/dirty healthy/broken working/broken works/fails good/bad
better/worse best/worst right/wrong correct/wrong correct/incorrect true/false yes/no valid/invalid present/absent
available/unavailable present/missing included/excluded include/exclude includes/excludes with/without full/empty
empty/nonempty visible/hidden show/hide shown/hidden locked/unlocked lock/unlock attached/detached attach/detach
connect/disconnect connected/disconnected join/leave joined/left install/uninstall installed/uninstalled add/remove
added/removed adds/removes insert/delete inserted/deleted created/deleted create/delete created/destroyed keep/delete
kept/deleted keep/drop kept/dropped keep/discard kept/discarded keep/remove kept/removed push/pull read-only/writable
readonly/writable read-only/read-write encrypted/plaintext encrypted/cleartext love/hate loves/hates loved/hated
like/dislike likes/dislikes like/hate likes/hates love/dislike loves/dislikes prefer/avoid prefers/avoids
agree/disagree agreed/disagreed support/oppose supports/opposes supported/opposed win/lose wins/loses won/lost
buy/sell bought/sold hire/fire hired/fired hired/dismissed hired/laid-off employed/unemployed expensive/cheap
easy/hard easy/difficult simple/complex simple/complicated strong/weak hot/cold warm/cold hard/soft heavy/light
thick/thin wide/narrow broad/narrow deep/shallow near/far rich/poor wet/dry day/night morning/evening north/south
northern/southern east/west eastern/western left/right top/bottom front/back frontend/backend horizontal/vertical
horizontally/vertically ascending/descending forward/backward forwards/backwards positive/negative always/never
everybody/nobody everyone/nobody everything/nothing all/none both/neither same/different identical/different
equal/unequal similar/different common/rare frequent/rare often/rarely often/seldom usually/rarely possible/impossible
legal/illegal regular/irregular primary/secondary master/replica major/minor senior/junior odd/even linear/nonlinear
lossless/lossy serial/parallel sequential/parallel sequential/concurrent eager/lazy eagerly/lazily
optimistic/pessimistic greedy/lazy proactive/reactive verbose/quiet loud/quiet noisy/quiet explicit/implicit
explicitly/implicitly absolute/relative exact/approximate abstract/concrete theoretical/practical
open-source/proprietary free/paid free/chargeable confidential/public classified/public guilty/innocent awake/asleep
standing/sitting alone/together ahead/behind onsite/remote on-site/remote in-house/outsourced on-premises/cloud
finished/unfinished completed/pending complete/incomplete resolved/open resolved/unresolved fixed/broken stable/flaky
stable/unstable deterministic/random backward/forward deprecated/supported deprecated/recommended encourage/discourage
encouraged/discouraged recommended/discouraged confirmed/cancelled confirmed/canceled confirmed/denied confirm/deny
confirms/denies postponed/advanced delayed/accelerated continued/cancelled continues/stops continue/stop
underestimate/overestimate
"""

NEGATING_PREFIXES: Final = ("un", "non-", "non", "dis", "in", "im", "il", "ir", "de-", "de", "mis")
MIN_STEM: Final = 4
"""Letters that must follow a prefix: 'in' + 'put' or 'de' + 'sign' are words of their own."""

_LOOK_ALIKE: Final = """
inflammable invaluable infamous inform indent income index inside input install inherent intent intense instance
instant intern internal import important impress improve impact implicate despite delight detail depart derive desire
deserve defense demand decline decode default define delay delete deliver design disc discuss display distance
distribute district understand until unless unit unite under union unique universe mission mister irrespective into
involve invent invest invoice deep deploy debug despite describe discover distill
"""
NOT_OPPOSITES: Final = frozenset(_LOOK_ALIKE.split())
"""Words that only look like the opposite of what remains without the prefix."""


@cache
def _table() -> MappingProxyType[str, frozenset[str]]:
    opposites: dict[str, set[str]] = {}
    for pair in _PAIRS.split():
        left, _, right = pair.partition("/")
        opposites.setdefault(left, set()).add(right)
        opposites.setdefault(right, set()).add(left)
    return MappingProxyType({word: frozenset(others) for word, others in opposites.items()})


def are_antonyms(left: str, right: str) -> bool:
    """Say whether two lower-case words exclude each other, by the table or by a negating prefix. Symmetric."""
    if left == right:
        return False
    return right in _table().get(left, ()) or _is_negated_form(left, right) or _is_negated_form(right, left)


def _is_negated_form(negated: str, plain: str) -> bool:
    if len(plain) < MIN_STEM or not negated.endswith(plain) or negated in NOT_OPPOSITES:
        return False
    return negated[: -len(plain)] in NEGATING_PREFIXES
