"""Words that begin sentences and stand beside names without being part of them, and nouns that make a name of a number."""

from typing import Final

from shared.stopwords import BY_LANGUAGE, ENGLISH, QUESTION_WORDS, words

PARTICLES: Final = words("of de del della di da du des la le van von der den ter the bin al y e &")
"""Lower-case words inside a name: Bank of America, Lord of the Rings, Ludwig van Beethoven."""

HONORIFICS: Final = words("mr mrs ms dr prof st sr jr sgt capt gen sen rep rev hon")
"""Abbreviations whose full stop ends no sentence."""

TITLES: Final = words(
    "king queen prince princess sir lady lord saint professor president count countess duke duchess emperor empress pope"
    " general captain colonel major baron baroness sultan tsar director chancellor senator judge"
)
"""Titles that stand before a person's full name, and without which the name is as good."""

NUMBERED: Final = words(
    "room gate flight ticket issue pr port sprint phase version release build error step level tier chapter section"
    " episode season platform terminal server node shard partition invoice order case incident bug task story epic"
    " milestone region zone rack floor building table line unit article rfc cve iso http"
)
"""Nouns that name one thing together with a number: Room 101, ticket 88."""

GROUP_NOUNS: Final = {"team": "team", "squad": "team", "guild": "team", "department": "department"}
"""Nouns that make a name a group's: "Platform team"; with the type that they tell."""

_IMPERATIVES: Final = words(
    "ask use run see check add set install call create update open fix migrate move enable disable restart deploy stop"
    " start try make get let find show list compare explain describe tell remember note read write send keep avoid remove"
    " delete replace rename configure build test ship roll switch upgrade downgrade merge push pull rotate revert retry"
    " prefer choose pick contact ping email thank thanks congrats welcome meet visit follow join hey hi hello yes yeah no"
    " ok okay wow sure well oh ah haha lol sounds looks totally absolutely definitely maybe perhaps"
    " actually basically finally lastly firstly secondly currently recently previously originally initially usually"
    " sometimes often always never today tomorrow yesterday tonight later earlier meanwhile however therefore moreover"
    " furthermore besides instead otherwise although though unless whereas whether since because despite during according"
    " following given using based due per via including regarding concerning considering assuming provided"
)
_PRONOUNS: Final = words(
    "cool great good bad new old nice"
    " everything everyone everybody someone somebody something anyone anybody anything nobody nothing none one two three"
    " four five six seven eight nine ten many much several few another another's others first second third last next"
    " while whenever wherever whoever hope please dear note todo fixme warning caution tip important example figure table"
)
LEADERS: Final = (ENGLISH | QUESTION_WORDS | _IMPERATIVES | frozenset().union(*BY_LANGUAGE.values())) - {"may"}
"""Words that stand before a name at a sentence's start without being part of it: "When Maya", "Restart Kafka"."""

OPENERS: Final = LEADERS | _PRONOUNS | {"no", "not", "like"}
"""Words that a capital at a sentence's start does not make a name. (First may be part of one: First National Bank.)"""

EXCLAMATIONS: Final = words(
    "ok todo fixme nb ps fyi asap btw lol omg imo tbd eta aka wip idk haha yes no not and or all if but so the a"
)
"""Words in capitals that are no acronyms."""

CALENDAR: Final = words(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august"
    " september october november december mon tue wed thu fri sat sun jan feb mar apr jun jul aug sep sept oct nov dec"
    " am pm utc gmt cet est pst q1 q2 q3 q4"
)
"""Capitalised words that date something and name nothing."""

FOLLOWING_VERBS: Final = words(
    "is was are were has had will would can could should must may might does did do said says and"
)
"""What follows a subject: evidence that a sentence's first word is a name."""

MODULE_EXTENSIONS: Final = words(
    "py pyi js jsx ts tsx mjs cjs java kt scala go rs c h cc cpp hpp cs rb php swift sh bash zsh ps1 sql md rst txt json"
    " jsonl yaml yml toml ini cfg conf env xml html css scss csv tsv lock proto tf ipynb log pdf docx xlsx png svg db"
    " sqlite dockerfile makefile gradle properties vue svelte lua r jl pl ex exs erl hs ml"
)
"""Endings that make a dotted word a file's name."""
