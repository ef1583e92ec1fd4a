"""Words that carry no subject: they leave questions, never the index. Also the evidence for a text's language."""

from typing import Final


def words(listed: str) -> frozenset[str]:
    """Return the words of a list that is written with spaces."""
    return frozenset(listed.split())


QUESTION_WORDS: Final = words(
    "what which who whom whose when where why how whats whos wheres hows did does do is are was were"
)

ENGLISH: Final = QUESTION_WORDS | words(
    "a about above after again against all also am an and any as at be because been before being below between both"
    " but by can cant could couldnt didnt doesnt doing dont down during each either else ever few for from further get"
    " gets got had hadnt has hasnt have havent having he her here hers herself him himself his i id if im in into isnt"
    " it its itself ive just like ll may me might more most must my myself neither no nor not of off on once only or"
    " other ought our ours ourselves out over own please re same shall she should shouldnt so some such tell than that"
    " thats the their theirs them themselves then there theres these they theyre this those through to too under until"
    " up upon us ve very wasnt we well were werent will with within without wont would wouldnt yet you youre your yours"
    " yourself yourselves give show find know me us want let lets"
) - {"no", "not", "like"}  # a question about what is not allowed, or liked, is about just that

# Function words that are frequent in one language and no frequent word of English. Chosen by hand; a word that two of
# these languages share counts for both.
BY_LANGUAGE: Final[dict[str, frozenset[str]]] = {
    "german": words(
        "der das und ist nicht ein eine einen einem einer eines mit für auf von dem den zu zum zur im des auch wird"
        " werden sind wurde wie wer wo warum wann welche welcher welches ich wir ihr sie es bei nach aus über als"
        " aber oder wenn dass daß noch nur schon kann haben hat sich diese dieser dieses durch keine kein um vom"
        " worden unser unsere"
    ),
    "french": words(
        "le la les des du de un une et est ne pas que qui quoi où dans pour sur avec par au aux ce cette ces il elle"
        " nous vous ils elles sont était été être avoir mais ou donc quand comment pourquoi quel quelle quels quelles"
        " plus sa ses leur leurs notre votre sans sous entre"
    ),
    "spanish": words(
        "el la los las un una unos unas y es son del de que qué en para por con no se su sus al lo como cómo más pero"
        " este esta estos estas ese esa fue está están cuando cuándo dónde quién cuál porque sin sobre entre también"
        " muy ya hay nos"
    ),
    "italian": words(
        "il lo la gli le un uno una e è di del della dei delle degli che chi cosa non per con su nel nella nei al alla"
        " sono era essere ma come quando dove perché quale quali questo questa questi queste più anche si da dal dalla"
        " ci ha hanno"
    ),
    "portuguese": words(
        "o os as um uma uns umas e é são do da dos das de que em no na nos nas para por com não se seu sua ao aos à"
        " como mais mas este esta isso foi está quando onde quem qual porque sem sobre entre também muito já pelo pela"
        " você"
    ),
    "dutch": words(
        "de het een en van is niet dat die dit wat wie waar waarom wanneer welke hoe op te voor met aan er zijn werd"
        " wordt worden bij naar uit over maar als om ook nog geen ik wij jullie hun heeft hebben kan door deze onze"
        " tot moet"
    ),
}

BY_SCRIPT: Final[dict[str, frozenset[str]]] = {
    "russian": words(
        "и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по только ее мне было вот от меня"
        " еще нет о из ему когда где кто почему какой какая какие это этот эта эти для мы их чем была сам был были есть"
        " или при об до ли"
    ),
    "greek": words(
        "ο η το οι τα του της των τον την και να σε με για από που πως ποιος ποια τι πότε πού γιατί είναι δεν θα στο"
        " στη στην στον ένα μια"
    ),
}

EVIDENCE: Final[dict[str, tuple[str, ...]]] = {
    word: tuple(sorted(language for language, words in BY_LANGUAGE.items() if word in words))
    for words in BY_LANGUAGE.values()
    for word in words
}
"""Function word → the languages it speaks for (besides English, which needs no evidence)."""

ENGLISH_EVIDENCE: Final = words(
    "the and of to is are was were that for with this it on be have has not what which who when where why how by from"
    " at as or an if will can you we they he she our your their does did do"
)
