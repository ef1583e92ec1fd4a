"""Word lists that the comparison of statements rests on: function words, verbs, negators and hedges (English)."""

import re
from collections.abc import Set as AbstractSet
from typing import Final

from shared import namewords

_WORD: Final = re.compile(r"\w+")


def holds_any(text: str, words: AbstractSet[str]) -> bool:
    """Say whether one of the (lower-case) words stands in a text: 5 µs a sentence, where a search for each takes 50."""
    return not words.isdisjoint(_WORD.findall(text.lower()))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS: Final = _words(
    "a an the this that these those it its it's he she they we i you him her them us me my your our their his hers who whom"
    " which what whose where when while and or but nor so yet however although though whereas moreover furthermore also too"
    " as at by for from in into of on onto to with within upon per via about than then thus hence therefore is are was were"
    " be been being am has have had having do does did doing will would shall should can could may might must ought let"
    " there here now today currently presently already still just only even really very quite rather both each either such"
    " any some all other another same own s t re ve ll d m please etc e.g i.e ie eg ok because since if unless until once"
    " during through throughout between among against toward towards around along across behind beyond except like not"
    " only exactly simply actually basically generally typically usually normally again further more most much many few less"
    " least one ones thing things way well get gets got one's up out off over under above below new newly recently latest"
    " present previously formerly originally approximately roughly nearly almost"
)
"""Words that carry no content of their own here: what they add never counts as a difference."""

NEGATORS: Final = _words(
    "not no never none nobody nothing nowhere neither nor cannot without isn't aren't wasn't weren't don't doesn't didn't"
    " won't wouldn't can't couldn't shouldn't mustn't needn't hasn't haven't hadn't ain't shan't isnt arent wasnt werent dont"
    " doesnt didnt wont cant couldnt shouldnt hasnt havent hadnt"
)
CESSATION: Final = _words("stop stops stopped cease ceases ceased quit quits discontinued discontinue")
"""Before an '-ing' form these say that it no longer is so."""

HEDGES: Final = _words(
    "some sometimes often occasionally many most few several partly partially mostly maybe perhaps possibly might may could"
    " probably likely unlikely if unless whether until would supposedly allegedly"
)
"""A statement that holds only partly or under a condition excludes nothing by its negation."""

ADDITIVE_VERBS: Final = _words(
    "use uses used using work works worked working administer administers administered know knows knew support supports"
    " supported like likes liked love loves loved enjoy enjoys enjoyed visit visits visited attend attends attended"
    " mention mentions mentioned discuss discusses discussed include includes included including contain contains contained"
    " depend depends depended rely relies relied integrate integrates integrated call calls called import imports imported"
    " read reads write writes wrote written add adds added fix fixes fixed review reviews reviewed merge merges merged help"
    " helps helped meet meets met join joins joined talk talks talked speak speaks spoke learn learns learned see sees saw"
    " try tries tried buy buys bought eat eats ate drink drinks drank drinking play plays played publish publishes published"
    " impose imposes imposed touch touches touched have has had manage manages managed maintain maintains maintained"
    " collaborate collaborates collaborated connect connects connected handle handles handled offer offers offered provide"
    " provides provided feature features featured win wins won receive receives received study studies studied create"
    " creates created build builds built develop develops developed consume consumes consumed emit emits emitted send sends"
    " sent log logs logged monitor monitors monitored test tests tested implement implements implemented move moves moved migrate"
    " migrates migrated switch switches switched travel travels travelled go goes went"
)
"""Facts of these verbs add up: a second object never retires the first (C15)."""

VERBS: Final = ADDITIVE_VERBS | _words(
    "is are was were be been being am 's will would shall should can could may might must cannot isn't aren't wasn't weren't"
    " don't doesn't didn't won't can't couldn't shouldn't has have had do does did became become becomes remain remains"
    " remained stay stays stayed live lives lived own owns owned lead leads led run runs ran start starts started begin"
    " begins began end ends ended finish finishes finished choose chooses chose chosen decide decides decided pick picks"
    " picked select selects selected prefer prefers preferred adopt adopts adopted hate hates hated dislike dislikes"
    " move moves moved migrate migrates migrated switch switches switched set sets change changes changed raise raises"
    " raised lower lowers lowered increase increases increased decrease decreases decreased report reports reported replace"
    " replaces replaced require requires required need needs needed allow allows allowed deny denies denied block blocks"
    " blocked accept accepts accepted reject rejects rejected enable enables enabled disable disables disabled deploy deploys"
    " deployed release releases released ship ships shipped launch launches launched expire expires expired close closes"
    " closed open opens opened take takes took make makes made keep keeps kept store stores stored listen listens listened"
    " fail fails failed pass passes passed belong belongs belonged assign assigned hand handed transfer transferred cost"
    " costs return returns returned retry retries retried serve serves served host hosts hosted sit sits sat stand stands"
    " stood lie lies lay go goes went come comes came give gives gave hold holds held leave leaves left pay pays paid sign"
    " signs signed upgrade upgrades upgraded downgrade downgrades downgraded roll rolls rolled rotate rotates rotated cache"
    " caches cached scale scales scaled handle process processes processed times trigger triggers triggered stop stops stopped"
    " cease ceased lacks lack resets reset approve approves approved says said say states stated claim claims claimed"
    " founded established born died located based situated known considered found discovered introduced invented held"
    " get gets got appointed elected directed written composed produced performed recorded completed opened constructed"
)
"""Where the first of these stands, the subject of a sentence ends."""

CHOICE_VERBS: Final = _words(
    "choose chooses chose chosen decide decides decided pick picks picked select selects selected adopt adopts adopted"
    " prefer prefers preferred standardise standardised standardize standardized settled"
)

COPULAS: Final = _words("is are was were become becomes became remain remains")

AUTHORED: Final = _words(
    "written directed composed founded created built developed designed invented discovered owned led maintained managed headed"
    " run produced painted hosted chaired approved signed commissioned authored proposed"
)
"""What was done by somebody, and by nobody else unless it says so: 'written by', 'owned by'."""

PLACED: Final = _words(
    "born died located situated based headquartered lives live lived buried held hosted stored resides sits lies"
)
"""What is in one place."""

NUMBERED: Final = (namewords.NUMBERED - {"port"}) | _words(
    "order part page figure appendix question row day week q no number id adr"
)
"""Nouns that name one thing together with a number: 'ticket 88' and 'ticket 89' are two tickets. A port is a value."""

ONCE_WORDS: Final = _words(
    "start starts started begin begins began end ends ended due deadline launch launches launched release released releases"
    " ship ships shipped expire expires expired founded established born birth died death killed built constructed completed"
    " opened opens opening introduced invented signed elected appointed scheduled freeze kickoff kick-off"
    " renewal renews renewed closes closed closing goes live cutover cut-over migration sunset retire retires retired"
    " premiered premiere debuted published created formed acquired married became established incorporated"
    " abolished laid began commissioned dissolved discovered final eol go-live window maintenance arrives arrived"
)
"""Beside one of these a date says when something happened that happens once, or is planned once."""

NAME_FILLERS: Final = _words("a an mr mrs ms dr prof sir saint st the of de and & inc ltd gmbh")
"""Parts of a name that do not tell it from another."""

FINITE: Final = _words("is are was were has have had does do did will would can could should must that which who")
"""Words that no plain noun phrase has."""
