"""The rules of tier 1: which words speak for which purpose, and the phrases in which they do not.

Every pattern is matched case-folded and at word boundaries, with its inflections written out: "policies" counts as
"policy" does, "prefix" never counts as "fix". Weights: 4 settles a purpose against one ordinary word of another, 3 is
a word that stands for the purpose, 2 needs no second witness but yields to a 3, 1 only adds. Under `THRESHOLD` the
question is general.
"""

import re
from dataclasses import dataclass
from typing import Final

from query.intent_words import FAILING, WORKING
from schemas.intent import Purpose

THRESHOLD: Final = 2.0


@dataclass(frozen=True)
class Rule:
    """One pattern and how much it says for its purpose. A rule counts once however often it matches."""

    purpose: Purpose
    weight: float
    pattern: re.Pattern[str]


def _rules(purpose: Purpose, *table: tuple[float | str, ...]) -> tuple[Rule, ...]:
    """Make rules of (weight, alternatives …)."""
    return tuple(
        Rule(purpose, float(weight), re.compile(rf"(?<!\w)(?:{'|'.join(map(str, patterns))})(?!\w)"))
        for weight, *patterns in table
    )


RULES: Final = (
    *_rules(
        Purpose.DEBUGGING,
        (3, r"null pointers?|why (?:does|do|did) (?:\S+ ){1,5}stop(?:ped)?|what(?:'s| is) going on"),
        (3, r"segmentation faults?|faulty|malfunction\w*|locked (?:all|up|out|for)|logged out|disappear(?:s|ed|ing)?"),
        (3, r"(?:hot)?fix(?:es|ed|ing)?|repair(?:s|ed|ing)?"),
        (3, r"bugs?|buggy|defects?|debug\w*|troubleshoot\w*|diagnos\w+|root[- ]causes?"),
        (
            3,
            r"crash\w*|segfault\w*|panic(?:s|ked|king)?|deadlock\w*|core dumps?|stack ?traces?|tracebacks?",
            r"oom(?:killed)?",
        ),
        (
            3,
            r"\w*(?:errors?|exceptions?)|\w+err|fail(?:s|ed|ing|ures?)?|broken|breaks?|broke|flaky|flakes?",
            r"outages?|glitch\w*",
        ),
        (
            3,
            r"hang(?:s|ing)?|hung|stuck|freez(?:es|ing)|frozen|infinite loop|runs? forever|memory leaks?",
            r"leak(?:s|ing) memory",
        ),
        (
            3,
            r"tim(?:es?|ed|ing) out|white screen|blank (?:page|screen)|out of (?:memory|disk|space)",
            r"5\d\d(?:s| errors?)",
        ),
        (3, rf"{FAILING}(?: (?:be|being|even|always|to|any))* {WORKING}"),
        (
            3,
            r"what(?:'s| is| went| could be)? (?:going )?wrong(?: with (?:the|our))?|went wrong|going wrong",
            r"keeps? \w+ing",
        ),
        (
            2,
            r"throw(?:s|ing|n)?|threw|regress(?:ed|ions?)|corrupt\w*|incidents?",
            r"wrong (?:result|value|total|number|data)s?",
        ),
        (
            2,
            r"return(?:s|ed|ing)? (?:an? )?(?:http )?[45]\d\d",
            r"(?:gets?|got|getting|seeing) (?:an? )?(?:http )?[45]\d\d",
        ),
        (2, r"how (?:do|can|should|could|to)\b.{0,24}\b(?:fix|debug|troubleshoot|diagnose|solve|resolve)"),
        (
            2,
            (
                r"(?:suddenly|randomly|intermittently|sporadically|duplicated?|missing|lost|drops?|dropped"
                r"|spik(?:es?|ed|ing))"
            ),
        ),
        (2, r"(?:too|so|very|unusually) slow|slow(?:er|ness)|laggy|high (?:latency|cpu|memory)"),
        (
            3,
            r"(?:no|none|nothing|nobody) .{1,40}(?:any ?more|any longer|since)|over and over|again and again",
            r"crash-?loop\w*",
        ),
        (
            3,
            r"(?:build|pipeline|test|tests|suite|ci|main|branch) (?:is|are|went|turned|goes) red",
            r"off[- ]by[- ](?:one|\w+)|killed",
        ),
        (
            2,
            r"(?:takes?|took|taking|needs?) (?:\w+ ){1,3}(?:seconds?|minutes?|hours?|forever|ages)",
            r"produc(?:es?|ed|ing) no",
        ),
        (
            2,
            r"(?:does|do|did|is|are)(?:n't| not| no longer) (?:add up|match|agree|exist|there)",
            r"empty (?:cart|list|page|result|response)s?",
        ),
        (1.5, r"timeouts?|issues?|problems?|symptoms?|warnings?|slow|down"),
        (1, r"why (?:does|do|is|are|did|was|were|has|have)(?:n't)?"),
        (
            3,
            r"panne|erreurs?|plante|fehler\w*|störung|abst[uü]rz\w*|ausfall|fallo|fallan?|caíd[ao]|roto",
            r"errore|guasto",
        ),
    ),
    *_rules(
        Purpose.ARCHITECTURE,
        (3, r"fit better|is it time to (?:move|switch|migrate)|how should (?:\S+ ){1,6}(?:communicate|interact|talk)"),
        (3, r"which (?:database|queue|framework|language|store|library|protocol) (?:should|would)"),
        (
            3,
            (
                r"(?:is|was|would) it (?:be )?worth|do we (?:want|need|really need)|settle[ds]? on"
                r"|opt(?:ed)? for|separate services"
            ),
        ),
        (
            4,
            (
                r"should (?:we|i|our team|the team|they) (?:really )?(?:use|adopt|switch|migrate|move"
                r"|choose|pick|go|split|replace|build|buy|keep|store|rewrite|introduce|merge|separate|drop"
                r"|cache|shard)"
            ),
        ),
        (
            4,
            (
                r"why (?:did|do|have|are|were)(?:n't)? (?:we|they|you|the \w+ team)(?: \w+)? (?:choose"
                r"|chose|chosen|pick(?:ed)?|us(?:e|ing)|adopt(?:ed)?|mov(?:e|ed|ing)|switch(?:ed)?"
                r"|decided?|go|gone|split|buil[dt]|migrat(?:e|ed|ing)|keep|kept|reject(?:ed)?"
                r"|select(?:ed)?|drop(?:ped)?|replaced?)"
            ),
        ),
        (
            3,
            r"architect\w*|trade-?offs?|rationale|adrs?|data model(?:s|ling)?|event[- ]driven|microservices?",
            r"monolith\w*",
        ),
        (3, r"design(?:s|ed|ing)?"),
        (3, r"compar(?:e|es|ed|ing|isons?)|vs\.?|versus|pros and cons|differences? between|alternatives? to"),
        (
            3,
            (
                r"how (?:is|are|was|were) .{1,40} (?:structured|organi[sz]ed|laid out|partitioned|split"
                r"|modell?ed|layered|wired)"
            ),
        ),
        (
            2,
            r"refactor\w*|migrat(?:ion|ions|ing|e)|decoupl\w*|topolog\w+|bounded contexts?|service boundar\w+",
            r"scalab\w+",
        ),
        (2, r"decision|decisions|decided|reasons? (?:for|behind)|reasoning"),
        (2, r"approach(?:es)?|patterns?|structur(?:e|es|ed)|layers?|components?"),
        (1, r"scal(?:e|ing)|diagrams?|dependenc(?:y|ies)|why (?:is|was|are)"),
        (3, r"architektur|conception|arquitectura|entwurf"),
        (
            3,
            r"what (?:made|led|brought|convinced) (?:us|them|you|the team)",
            r"(?:go|going|went) with \w+ (?:over|instead of|rather than)",
        ),
        (
            3,
            r"where (?:should|does|do|would) .{1,40} (?:boundary|line|split|seam|border)\w*",
            r"(?:boundary|line|split) between",
        ),
        (
            3,
            (
                r"(?:dependenc(?:y|ies)|relations?|interplay|interaction) (?:between|among|of) (?:the "
                r"|our )?(?:services|systems|modules|components|parts)"
            ),
        ),
    ),
    *_rules(
        Purpose.ONBOARDING,
        (3, r"new (?:engineer|hire|starter|developer|joiner)s?|read first"),
        (
            3,
            (
                r"where (?:do|should|can|would) i (?:start|begin)|tak(?:e|ing) over from|what (?:is"
                r"|are) .{1,40} for(?=\?|$)"
            ),
        ),
        (
            4,
            r"new (?:to|here|on|in)|new (?:hires?|joiners?|starters?|colleagues?)|newcomers?",
            r"(?:just|recently) (?:joined|started)",
        ),
        (4, r"first (?:day|week|month)|getting started|get started|come up to speed|up to speed", r"ramp(?:ing)? up"),
        (4, r"explain(?:s|ed)?|walk me through|overview|introduc(?:e|tion)|primer|big picture|glossary"),
        (
            3,
            r"describe|tell me about|teach me|background on|basics|for (?:beginners|dummies|newbies)",
            r"high[- ]level",
        ),
        (
            3,
            (
                r"how (?:does|do) (?!(?:i|we|you|one|it)(?!\w)).{1,60} (?:work|works|fit|fits|interact"
                r"|hang together|communicate)"
            ),
        ),
        (
            3,
            r"what (?:does|do) (?:the |our |an? )?[\w .-]{1,40} (?:do|mean|stand for)",
            r"what is .{1,40} (?:used )?for",
        ),
        (2, r"onboard(?:ed|ing)?|introduct\w+|familiar\w*|orientation|understand(?:ing)?|learn(?:ing)? about"),
        (
            1.5,
            r"who (?:is|are) .{1,40} (?:and what|responsible)",
            r"where (?:do|can|should) i (?:find|start|begin|look)",
        ),
        (1, r"what(?:'s| is| are)(?: an?| our)? "),
    ),
    *_rules(
        Purpose.POLICY,
        (3, r"ndas?|non-disclosure"),
        (4, r"polic(?:y|ies)|complian(?:ce|t)|regulat(?:ions?|ory|ors?)|gdpr|hipaa|sox|code of conduct"),
        (4, r"(?:not )?(?:allowed|permitted|forbidden|prohibited|disallowed|entitled|obliged)", r"against the rules"),
        (
            3,
            r"(?:may|must) (?:i|we|you|an?|every|all|any|contractors?|employees?|engineers?|vendors?|people|everyone)",
            r"have to (?:be )?(?:approv|sign|report|declar|disclos)\w*",
        ),
        (
            3,
            r"mandatory|guidelines?|approv(?:al|als|e|es|ed)|sign[- ]?offs?|retention|audit requirements?",
            r"(?:legal|contractual)\w*",
        ),
        (
            3,
            r"(?:is|are) .{1,60} (?:required|compulsory|ok under|acceptable under)",
            r"(?:minimum|maximum) (?:age|number|length|period)",
        ),
        (3, r"expens(?:e|es|ed|ing)|reimburs\w+|vacation|parental leave|sick leave|days off|travel|probation"),
        (
            2,
            r"rules?|required|requirements?|standards?|obligations?|permission|exempt\w*|limit on",
            r"licen[cs](?:e|es|ing)",
        ),
        (
            1,
            r"can (?:i|we|contractors?|employees?|interns?|people)",
            r"how long (?:do|must|should) we (?:keep|store|retain)",
        ),
        (3, r"richtlinien?|politique|política|normativa|vorschrift\w*|erlaubt|permitido|autorisé"),
        (
            3,
            (
                r"(?:must|shall|have to|has to) .{1,30} be (?:kept|stored|deleted|archived|retained"
                r"|reported|signed|destroyed|approved)"
            ),
        ),
    ),
    *_rules(
        Purpose.HOW_TO,
        (3, r"^(?:adding|creating|installing|configuring|deploying|running|connecting|importing|exporting|renaming)"),
        (3, r"(?:an? |the )?examples? (?:of|for) (?:how|using|calling|a|an)|examples? of \w+ing"),
        (
            3,
            r"how (?:do|can|could|should|would|might|to)(?:(?: (?:i|we|you|one|they))|(?! (?:the|our|my|these|those)))",
        ),
        (
            3,
            r"steps? (?:to|for|needed)|step[- ]by[- ]step|instructions?|tutorials?|walk-?throughs?|runbooks?",
            r"cheat ?sheets?|recipes? for",
        ),
        (
            3,
            (
                r"(?:what(?:'s|s| is| are)|which is|show me|give me) the (?:\w+ )?(?:commands?|procedure"
                r"|process|way|syntax|flags?|steps) (?:to|for|of)"
            ),
        ),
        (
            3,
            (
                r"^(?:(?:please|now|then|i want to|i need to|i'd like to|we need to|we want to|help me"
                r"|let's|can you|could you) ?,? ?)?(?:add|create|write|set ?up|install|configure|deploy"
                r"|run|build|generate|implement|enable|disable|rotate|upgrade|rename|register|connect"
                r"|publish|schedule|restart|import|export|provision|mount|reset|migrate|backfill|seed"
                r"|clone|release|tag|wire|hook|parse|convert|restore|back up|roll back|invite)"
            ),
        ),
        (
            2,
            r"set-?up|set up|guide|how-?to|configur(?:e|ing|ation)|install(?:ing|ation)?|deploy(?:ing|s)?",
            r"roll(?:ing)? back",
        ),
        (
            1,
            r"run(?:ning)?|commands?|steps?|enabl(?:e|ing)|upgrad(?:e|ing)|rotat(?:e|ing)|restart(?:ing)?",
            r"creat(?:e|ing)|example of",
        ),
        (
            3,
            r"anleitung|comment (?:faire|installer|configurer|puis-je)|cómo|como (?:se|fazer)",
            r"wie (?:kann|richte|installiere)",
        ),
    ),
    *_rules(
        Purpose.REVIEW,
        (4, r"wrong with the (?:style|structure|wording|naming)|rate the (?:quality|style)"),
        (
            3,
            r"review(?:s|ed|ing)?|feedback|critiqu\w+|second opinion|nitpicks?|code smells?|best practices?",
            r"sanity[- ]check\w*",
        ),
        (3, r"improv(?:e|es|ed|ing|ements?)|polish|tidy|clean(?:er)? up"),
        (
            4,
            (
                r"(?:is|are|was|were|does|do) (?:this|that|these|those|it|my|the following"
                r"|what i)\b.{0,60}?\b(?:good|correct|right|okay?|idiomatic|clean|sensible|acceptable"
                r"|sound|proper|properly|sane|reasonable|readable|fine|overkill|overengineered|well[- ]\w+"
                r"|make sense|look)"
            ),
        ),
        (
            4,
            r"(?:look|glance|check|go) (?:over|at|through) (?:my|this|these|the following)",
            r"what do you think (?:of|about)",
        ),
        (
            4,
            (
                r"(?:how|any(?:thing| way)?|what) (?:can|could|would|should|to) (?:we|i|you|be) (?:improve"
                r"|improved|change|do better|made better)"
            ),
        ),
        (
            3,
            r"(?:anything|something) (?:wrong|missing|off|unclear) (?:with|in|about) (?:my|this|the following)",
            r"better way|lgtm",
        ),
        (
            2,
            r"conventions?|code quality|readab\w+|maintainab\w+|quality|simplif\w+|optimi[sz]\w+",
            r"pull requests?|prs?|merge requests?|diffs?",
        ),
        (1, r"this (?:approach|function|class|snippet|query|code|change|patch|draft|name|naming)|naming"),
    ),
    *_rules(
        Purpose.SECURITY,
        (3, r"path traversal|where are (?:\S+ )?(?:tokens|secrets|keys|credentials)|who can (?:read|see|access)"),
        (
            4,
            r"vulnerab\w+|exploit(?:s|ed|ing|able|ation)?|cves?(?:-\d+)*|ssrf|xss|csrf|rce|sqli",
            r"privilege escalation|zero[- ]days?",
        ),
        (
            4,
            (
                r"(?:leak(?:s|ed|ing)?|expos(?:e|es|ed|ing)|stolen|steal|compromised?"
                r"|harden\w*)(?:\W+\w+){0,4}?\W+(?:keys?|secrets?|credentials?|tokens?|passwords?"
                r"|accounts?|data|servers?|images?|clusters?)"
            ),
        ),
        (
            4,
            r"(?:sql|command|prompt|code|ldap|header) injections?|pen-?tests?|penetration tests?",
            r"threat(?:s| model\w*)?|hack(?:ed|ers?)",
        ),
        (
            3,
            r"secur(?:e|ity|ely|ing)|insecure|attack(?:s|ers?|ed)?|breach(?:es|ed)?|injections?|malware",
            r"ransomware|phish\w*|spoof\w*|intrusions?",
        ),
        (3, r"(?:leaked|compromised|exposed|stolen) (?:\w+ )?(?:keys?|secrets?|credentials?|tokens?|passwords?)"),
        (
            3,
            (
                r"(?:brute[- ]forc\w+|man[- ]in[- ]the[- ]middle|replay(?:ed)? attack\w*|tamper\w*"
                r"|bypass(?:es|ed|ing)?|forg(?:e|ed|ery))"
            ),
        ),
        (
            2,
            r"encrypt\w*|decrypt\w*|credentials?|sanitiz\w+|sanitis\w+|authenticat\w+|authoriz\w+|authoris\w+",
            r"mfa|2fa|untrusted",
        ),
        (
            1.5,
            r"secrets?|passwords?|permissions?|privileges?|access control|least privilege|oauth|sso|firewall",
            r"csp",
        ),
        (1, r"auth|jwts?|tls|certificates?|tokens?|keys?"),
        (3, r"sicherheitsl\w+|sécurité|faille|seguridad|vulnerabilidad"),
    ),
)
