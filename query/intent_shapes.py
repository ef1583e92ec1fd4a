"""The shape a question asks for: format, horizon, and what it wants compared. Pure functions of the text.

A format is a *request*: a verb that asks for output, or a phrase at the end that says "as a …". The word alone never is
one: "alter a table in Postgres", "the knowledge graph team" and "tablet launches" ask for no shape.
"""

import re
from typing import Final

from schemas.intent import AnswerFormat

_KNOWN: Final = {
    "table": AnswerFormat.TABLE,
    "tables": AnswerFormat.TABLE,
    "grid": AnswerFormat.TABLE,
    "matrix": AnswerFormat.TABLE,
    "columns": AnswerFormat.TABLE,
    "rows": AnswerFormat.TABLE,
    "tabular form": AnswerFormat.TABLE,
    "tabular format": AnswerFormat.TABLE,
    "chart": AnswerFormat.CHART,
    "bar chart": AnswerFormat.CHART,
    "bar graph": AnswerFormat.CHART,
    "ranking": AnswerFormat.CHART,
    "ranked list": AnswerFormat.CHART,
    "histogram": AnswerFormat.CHART,
    "timeline": AnswerFormat.TIMELINE,
    "chronology": AnswerFormat.TIMELINE,
    "chronological order": AnswerFormat.TIMELINE,
    "chronological list": AnswerFormat.TIMELINE,
    "graph": AnswerFormat.GRAPH,
    "network": AnswerFormat.GRAPH,
    "network graph": AnswerFormat.GRAPH,
    "dependency graph": AnswerFormat.GRAPH,
    "entity graph": AnswerFormat.GRAPH,
    "relationship graph": AnswerFormat.GRAPH,
    "node graph": AnswerFormat.GRAPH,
}
_UNSUPPORTED: Final = (
    r"csv(?: file)?|tsv|json|yaml|xml|html|pdf|docx?|word (?:document"
    r"|file)|excel(?: sheet| file)?|xlsx|spreadsheet|google sheet|slides?"
    r"|slide ?deck|power ?point|presentation|keynote|map|heat ?map"
    r"|tree ?map|mind ?map|pie chart|donut chart|tornado(?: chart)?"
    r"|scatter ?plots?|box ?plots?|radar chart|bubble chart"
    r"|gantt(?: chart)?|sankey(?: diagram)?|venn diagram|flow ?chart"
    r"|(?:sequence |class |er |uml |architecture )?diagram|mermaid(?: diagram)?"
    r"|plantuml|latex|infographic|kanban(?: board)?|calendar"
    r"|dashboard|podcast|video|audio|image|picture|svg|png|poem|haiku"
    r"|song|rap|comic|word cloud|funnel|waterfall(?: chart)?|gauge"
    r"|[a-z]+ chart|[a-z]+plot|[a-z]+gram(?<!program)"
)
_SHAPE: Final = "|".join(sorted((re.escape(word) for word in _KNOWN), key=len, reverse=True))
_ANY: Final = rf"(?P<shape>{_SHAPE}|{_UNSUPPORTED})"
_ARTICLE: Final = (
    r"(?:(?:an?|the|one|some|nice|simple|small|single|sortable|sorted|neat|proper|quick|markdown|clean) ){0,3}"
)
_VERB: Final = (
    r"(?:show|give|list|present|render|display|put|draw|plot|return"
    r"|format|output|export|summari[sz]e|visuali[sz]e|lay|share|send"
    r"|make|get|want|need|prepare|produce|generate|arrange|rank|break"
    r"|turn|answer|print|report|compare|chart|map|tabulate|see|have)"
)
_TAIL: Final = (
    r"(?=\s*(?:$|[.?!,;:)]|please|thanks|with|sorted|ordered|grouped|by|per"
    r"|showing|so|of|for|instead|and|if|over time))"
)
_MODELLING: Final = re.compile(
    r"(?<!\w)(?:stor(?:e|ed|ing)|sav(?:e|ed|ing)|model(?:led|ed|ling)?"
    r"|represent(?:ed)?|implement(?:ed)?|treat(?:ed)?|persist(?:ed)?"
    r"|encod(?:e|ed)|serv(?:e|ed)|parse[ds]?|import(?:ed)?|upload(?:ed)?"
    r"|alter|migrat(?:e|ed)|lock(?:ed)?|insert(?:ed)?|index(?:ed)?"
    r"|work(?:s|ed)? with|read|accept(?:s|ed)?|support(?:s|ed)?)(?!\w)"
)
"""Verbs with which "as a table" speaks about a system and not about the answer."""

_AS: Final = re.compile(rf"(?<!\w)(?:as|in the form of|formatted as|in form of) {_ARTICLE}{_ANY}(?!\w){_TAIL}")
_IN: Final = re.compile(
    rf"(?<!\w){_VERB}(?!\w).*(?<!\w)(?:in|into|on|to|via|using) {_ARTICLE}{_ANY}(?!\w)(?=\s*(?:$|[.?!,;]|please))"
)
_GIVE: Final = re.compile(
    rf"^(?:(?:please|can you|could you|would you|i want(?: you to)?"
    rf"|i need(?: you to)?|i'd like(?: you to)?|now|then|and|let me|let's) ?,? ?)*"
    rf"(?:show|give|draw|plot|render|display|make|produce|prepare"
    rf"|generate|create|build|see|want|need|have|get|sketch|export|print)?"
    rf"(?: (?:me|us|up|out))? ?(?:a|an|the)(?: [\w-]+){{0,2}}? {_ANY} "
    rf"(?:of|for|with|showing|comparing|listing|about|that|on|between|which|how|from|covering)(?!\w)"
)
_START: Final = re.compile(rf"^(?:please )?{_ANY}(?: view)?(?: of|:| for(?= the| our| all))(?!\w)")
_IMPERATIVES: Final = (
    (re.compile(r"^(?:please )?(?:can you |could you )?(?:tabulate|tabulating)(?!\w)"), AnswerFormat.TABLE, "tabulate"),
    (re.compile(r"(?<!\w)side[- ]by[- ]side(?!\w)"), AnswerFormat.TABLE, "side by side"),
    (
        re.compile(r"^(?:please )?(?:can you |could you )?(?:chart|plot|graph) (?:the |our |all |how |number |count )"),
        AnswerFormat.CHART,
        "plot",
    ),
    (re.compile(r"^(?:please )?plot (?!device|hole|twist|summary)"), AnswerFormat.CHART, "plot"),
    (re.compile(r"(?<!\w)rank(?:ed)? (?:as a list|by (?:number|count|frequency))(?!\w)"), AnswerFormat.CHART, "ranked"),
    (re.compile(r"(?<!\w)in (?:chronological|date|time) order(?!\w)"), AnswerFormat.TIMELINE, "chronological order"),
    (
        re.compile(r"(?<!\w)(?:rows|columns|something|it|that|this|data)? ?(?:for|to|in|into) excel(?!\w)"),
        AnswerFormat.UNSUPPORTED,
        "excel",
    ),
)
_BUILDING: Final = re.compile(
    r"(?<!\w)(?:create|build|make|generate|need|have|alter|drop|add) (?:an? "
    r"|the )?(?:[\w-]+ )*(?:tables?|dashboards?|calendar|map|grid|pipeline)(?!\w)"
    r".*(?<!\w)(?:postgres\w*|sql|mysql|sqlite|database|schema|columns?"
    r"|migration|index|dynamodb|bigquery|html|css|react|grafana)(?!\w)"
)
"""Making a table in a database is work, not a format."""


def read_format(text: str) -> tuple[AnswerFormat, str | None]:
    """Return the format that a case-folded question asks for, with its words; (default, None) when it asks for none.

    A known way of asking with a shape that Cortex cannot make gives ``UNSUPPORTED`` with the raw words.
    """
    if _BUILDING.search(text):
        return AnswerFormat.DEFAULT, None
    for pattern, shape, words in _IMPERATIVES:
        if pattern.search(text):
            return shape, words
    for pattern in (_GIVE, _START, _AS, _IN):
        match = pattern.search(text)
        if match is None or (pattern in (_AS, _IN) and _MODELLING.search(text[: match.start("shape")])):
            continue
        words = match.group("shape")
        if words in ("graph", "line graph") and re.search(
            r"(?<!\w)(?:counts?|number of|per (?:day|week|month|team)|over time)(?!\w)", text
        ):
            return AnswerFormat.CHART, words
        return _KNOWN.get(words, AnswerFormat.UNSUPPORTED), words
    return AnswerFormat.DEFAULT, None


_DAYS: Final = {"hour": 1 / 24, "day": 1, "week": 7, "fortnight": 14, "month": 30, "quarter": 91, "year": 365}
_NUMBERS: Final = {
    "one": 1, "a": 1, "an": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "twelve": 12, "couple of": 2, "few": 3, "several": 3,
}  # fmt: skip
_SPAN: Final = re.compile(
    rf"(?<!\w)(?:last|past|previous|recent|within|in the last|over the last|these) (?:the (?:last|past) )?"
    rf"(?:(?P<count>\d{{1,4}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) )?"
    rf"(?P<unit>{'|'.join(_DAYS)})s?(?!\w)"
)
_WORDS: Final = (
    (re.compile(r"(?<!\w)(?:today|tonight|this morning)(?!\w)"), 1),
    (re.compile(r"(?<!\w)(?:since )?yesterday(?!\w)"), 2),
    (re.compile(r"(?<!\w)(?:this week|since (?:mon|tues|wednes|thurs|fri|satur|sun)day)(?!\w)"), 7),
    (re.compile(r"(?<!\w)this month(?!\w)"), 31),
    (re.compile(r"(?<!\w)this quarter(?!\w)"), 92),
    (re.compile(r"(?<!\w)this year(?!\w)"), 366),
    (re.compile(r"(?<!\w)(?:recently|lately)(?!\w)"), 30),
)
_HORIZON_LIMIT: Final = 36_500  # a century; more is a slip of the keyboard


def read_horizon(text: str) -> int | None:
    """Return how many days back a case-folded question looks; None when it does not say."""
    match = _SPAN.search(text)
    if match and not (match.group("count") is None and match.group(0).startswith(("within", "recent", "these"))):
        count = match.group("count") or "1"
        number = _NUMBERS.get(count) or int(count)
        return min(_HORIZON_LIMIT, max(1, round(number * _DAYS[match.group("unit")])))
    return next((days for pattern, days in _WORDS if pattern.search(text)), None)


_TERM: Final = r"[^\s,;:?!()]+(?: [^\s,;:?!()]+){0,3}?"
_END: Final = r"(?=\s*(?:$|[,;:?!.]|for |in |on |as |when |with respect|regarding|at |since |during |because ))"
_COMPARISONS: Final = (
    re.compile(
        (
            rf"(?<!\w)compar(?:e|ing|ison (?:of|between)) (?P<a>{_TERM}) (?:and"
            rf"|with|to|against|vs\.?|versus) (?P<b>{_TERM}){_END}"
        ),
        re.IGNORECASE,
    ),
    re.compile(
        (
            rf"(?<!\w)(?:differences?|choose|choosing|choice|decide|deciding"
            rf"|trade-?offs?) between (?P<a>{_TERM}) (?:and|or) (?P<b>{_TERM}){_END}"
        ),
        re.IGNORECASE,
    ),
    re.compile(rf"(?P<a>[^\s,;:?!()]+(?: [^\s,;:?!()]+){{0,1}}?) (?:vs\.?|versus) (?P<b>{_TERM}){_END}", re.IGNORECASE),
    re.compile(
        (
            rf"(?<!\w)(?:(?:use|adopt|pick|choose|prefer|go with|want|better|faster"
            rf"|cheaper|safer)[,:]?|either) (?P<a>{_TERM}),? or (?P<b>{_TERM}){_END}"
        ),
        re.IGNORECASE,
    ),
    re.compile(r"^(?P<a>[A-Z0-9][\w.+#-]*) or (?P<b>[A-Z0-9][\w.+#-]*)(?= for | in |\s*\?)"),
)
_DETERMINER: Final = re.compile(r"^(?:the|a|an|our|between|is|are|of|for|how|what|which|does|do|to)\s+", re.IGNORECASE)


def read_comparison(text: str) -> tuple[str, ...]:
    """Return what the question (in its own spelling) wants compared, in its order; empty when it compares nothing."""
    for pattern in _COMPARISONS:
        match = pattern.search(text)
        if match:
            targets = [_bare(match.group("a")), *(_bare(part) for part in re.split(r",? and | or ", match.group("b")))]
            return tuple(dict.fromkeys(target for target in targets if target))[:4]
    return ()


def _bare(target: str) -> str:
    stripped = target.strip(" .'\"")
    while (shorter := _DETERMINER.sub("", stripped)) != stripped:
        stripped = shorter
    return stripped
