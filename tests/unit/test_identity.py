"""Keys of texts and names, the alias view, and what vetoes likeness."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.entities import EntityDeclaration, EntityType
from shared.identity import (
    AliasView,
    DeclaredNames,
    alias_candidates,
    content_key,
    declared_names,
    differs_in_identifier,
    fold_key,
    id_key,
    identifiers,
    undeclared_id,
)
from shared.likeness import misspelling_distance

ANY_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


def declare(entity_id, name, *aliases, kind=EntityType.SYSTEM):
    return EntityDeclaration(id=entity_id, type=kind, name=name, aliases=aliases)


DECLARED = [
    declare("sys-k8s", "Kubernetes", "k8s", "kube"),
    declare("sys-pay", "Payments Service", "paysvc"),
    declare("team-pay", "Payments", kind=EntityType.TEAM),
    declare("proj-pay", "payments", kind=EntityType.PROJECT),
    declare("p-maria", "Maria Hansen", kind=EntityType.PERSON),
    declare("sys-mw2", "Middleware 2"),
    declare("sys-north", "Region North"),
    declare("sys-eu", "Staging EU"),
]


@pytest.mark.parametrize(
    "surfaces",
    [
        ("System Admin", "system admin", "SystemAdmin", "System-Admin", "SYSTEM_ADMIN", " System  Admin "),
        ("Société Générale", "Socie\u0301te\u0301 Ge\u0301ne\u0301rale", "SOCIETE GENERALE"),
        ("API-42", "ＡＰＩ－４２", "api 42", "API42"),
        ("İstanbul", "istanbul", "ISTANBUL"),
        ("Straße", "STRASSE"),
        ("Acme", "Acme Inc.", "ACME, Inc", "Acme Co., Ltd.", "acme GmbH & Co. KG", "Acme S.A.", "株式会社Acme"),
        ("The Guardian", "Guardian"),
        ("Node.js", "NodeJS", "node js"),
    ],
)
def test_spellings_of_one_name_share_a_key(surfaces):
    assert len({fold_key(surface) for surface in surfaces}) == 1


@pytest.mark.parametrize(
    "surfaces",
    [
        ("Room 101", "Room 102"),
        ("2023 Tax Return", "2024 Tax Return"),
        ("v1.2", "v1.20", "v12", "v1.2.0"),
        ("mw-3", "mw-2"),
        ("07", "7"),
        ("1.2", "12", "1-2", "1,2"),
        ("C", "C++", "C#"),
        ("C++ compiler", "C compiler"),
        (".NET", "NET"),
        ("Temperature -5", "Temperature 5"),
        ("John Doe", "John T. Doe", "John S. Doe"),
        ("订单服务", "库存服务"),
        ("paypal.com", "раypal.com"),
        ("а", "a"),
        ("src/app.py", "srca/pp.py"),
        ("a.b@c.org", "ab@c.org"),
        ("бой", "бои"),
        ("→", "←", "++"),
        ("Gate 7SA", "Gate 7"),
        ("5 kg", "5"),
        ("10²", "102"),
    ],
)
def test_names_that_differ_in_what_identifies_never_share_a_key(surfaces):
    assert len({fold_key(surface) for surface in surfaces}) == len(surfaces)


@pytest.mark.parametrize("surface", ["Inc", "Ltd.", "S.A.", "The", "株式会社", "++", "→", "訂", "ก", "🚀"])
def test_nothing_but_white_space_folds_to_nothing(surface):
    assert fold_key(surface) != ""
    assert fold_key(" \n") == ""


@given(ANY_TEXT)
def test_a_key_is_its_own_key(surface):
    assert fold_key(fold_key(surface)) == fold_key(surface)


@given(ANY_TEXT)
def test_keys_hold_no_white_space_and_are_empty_for_it_alone(surface):
    key = fold_key(surface)
    assert not any(char.isspace() for char in key)
    if any(char.isalnum() for char in surface):
        assert key


@given(st.integers(0, 9999), st.integers(0, 9999), st.sampled_from(["Room {}", "v{}", "mw-{}", "{}", "API {} x"]))
def test_different_numbers_are_different_keys(first, second, pattern):
    same = fold_key(pattern.format(first)) == fold_key(pattern.format(second))
    assert same == (first == second)


def test_a_content_key_tells_tenant_scope_and_text_apart_and_nothing_else():
    key = content_key("acme", "team/core", "The limit is 5.")
    assert len(key) == 32
    assert int(key, 16) >= 0
    assert content_key("acme", "team/core", " the LIMIT  is 5.") == key
    others = [
        ("acm", "eteam/core", "The limit is 5."),
        ("acme", "team/x", "The limit is 5."),
        ("acme", "team/core", "The limit is 6."),
    ]
    assert key not in {content_key(*other) for other in others}
    assert content_key("a", "s", "10²") != content_key("a", "s", "102")


@pytest.mark.parametrize(
    ("first", "second", "differ"),
    [
        ("The limit is 5.", "The limit is 6.", True),
        ("The limit is five.", "The limit is 5.", False),
        ("1,000 items", "1000 items", False),
        ("since v1.2", "since v1.20", True),
        ("Service A is down", "Service B is down", True),
        ("due on Friday", "due on Monday", True),
        ("in May", "in June", True),
        ("you may go", "you can go", False),
        ("see config.yaml", "see config.json", True),
        ("call getUser", "call getUsers", True),
        ("The cache is warm", "the cache IS warm", False),
        ("A cache is warm", "The cache is warm", False),
        ("at 10:30", "at 10:45", True),
        ("-5 degrees", "5 degrees", True),
        ("flight UA123", "flight UA124", True),
    ],
)
def test_numbers_identifiers_and_dates_veto_likeness(first, second, differ):
    assert differs_in_identifier(first, second) is differ
    assert differs_in_identifier(second, first) is differ


@given(ANY_TEXT)
def test_no_text_differs_from_itself(text):
    assert not differs_in_identifier(text, text)
    assert isinstance(identifiers(text), frozenset)


def resolve(surface, declared=DECLARED):
    return AliasView(declared).resolve(fold_key(surface))


@pytest.mark.parametrize("surface", ["Kubernetes", "kubernetes", "K8S", "kube", "sys-k8s"])
def test_a_declared_name_alias_or_id_is_exact(surface):
    found = resolve(surface)
    assert (found.entity_id, found.name, found.method, found.confidence) == ("sys-k8s", "Kubernetes", "exact", 1.0)


def test_an_id_key_means_its_entity_declared_or_not():
    view = AliasView(DECLARED)
    assert view.resolve(id_key("sys-k8s")).method == "exact"
    undeclared = view.resolve(id_key("sys-new"))
    assert (undeclared.entity_id, undeclared.method) == ("sys-new", "unknown")


def test_an_undeclared_key_stands_for_itself():
    found = resolve("Zookeeper")
    assert (found.entity_id, found.method, found.confidence) == (undeclared_id("zookeeper"), "unknown", 0.0)


def test_a_name_that_two_entities_claim_is_given_to_neither():
    found = resolve("Payments")
    assert found.entity_id == undeclared_id("payments")
    assert found.candidates == ("proj-pay", "team-pay")


@pytest.mark.parametrize(
    ("surface", "entity_id"),
    [
        ("kubernets", "sys-k8s"),
        ("kubernettes", "sys-k8s"),
        ("Kuberentes", "sys-k8s"),
        ("payment service", "sys-pay"),
        ("Maria Hanssen", "p-maria"),
    ],
)
def test_a_slip_of_the_hand_finds_the_name_with_less_confidence(surface, entity_id):
    found = resolve(surface)
    assert (found.entity_id, found.method) == (entity_id, "fuzzy")
    assert 0.5 < found.confidence < 1


@pytest.mark.parametrize(
    "surface",
    [
        "kub",
        "k9s",
        "kube2",
        "Kubernetes 2",
        "Middleware 3",
        "Middleware 12",
        "Region South",
        "Staging US",
        "Maria Hanson",
        "Marie Hansen",
        "Aubernetes",
    ],
)
def test_what_may_be_another_name_is_not_taken_for_a_misspelling(surface):
    assert resolve(surface).method == "unknown"


def test_a_misspelling_as_near_to_two_entities_is_ambiguous():
    found = resolve("gateawy", [declare("a", "gateway"), declare("b", "Gate Way")])
    assert (found.entity_id, found.candidates) == (undeclared_id("gateawy"), ("a", "b"))


def test_keys_of_an_entity_are_those_that_mean_it_alone():
    view = AliasView(DECLARED)
    assert view.keys_of("sys-k8s") == ("=sys-k8s", "k8s", "kube", "kubernetes", "sysk8s")
    assert view.keys_of("team-pay") == ("=team-pay", "teampay")
    assert view.keys_of("~zookeeper") == ("zookeeper",)
    assert view.keys_of("sys-new") == ("=sys-new",)


def test_a_name_beats_another_entitys_id():
    view = AliasView([declare("orion", "Lynx"), declare("x", "Orion")])
    assert view.resolve("orion").entity_id == "x"


def test_declared_answers_what_was_declared():
    view = AliasView([*DECLARED, DeclaredNames("e", "E", None, ("e1",))])
    assert view.declared("sys-k8s") == declared_names(DECLARED[0])
    assert view.declared("nobody") is None
    assert view.resolve("e1").entity_id == "e"
    assert "kubernetes" in view
    assert "kubernets" not in view


@given(st.randoms(use_true_random=False))
def test_the_order_of_declarations_does_not_matter(rng: random.Random):
    shuffled = [*DECLARED, DECLARED[0]]
    rng.shuffle(shuffled)
    keys = [fold_key(name) for name in ("k8s", "kubernets", "Payments", "payment service", "Room 1", "sys-eu")]
    view, expected = AliasView(shuffled), AliasView(DECLARED)
    assert [view.resolve(key) for key in keys] == [expected.resolve(key) for key in keys]
    assert [view.keys_of(each.id) for each in DECLARED] == [expected.keys_of(each.id) for each in DECLARED]


@given(st.text("abcdeé1", max_size=12), st.text("abcdeé1", max_size=12))
def test_misspelling_is_symmetric_and_never_crosses_digits(first, second):
    there, back = misspelling_distance(first, second), misspelling_distance(second, first)
    assert there == back
    if there is not None:
        assert 1 <= there <= 2
        assert [char for char in first if char.isdigit()] == [char for char in second if char.isdigit()]


def test_a_middle_initial_makes_an_alias_candidate_and_another_initial_never():
    assert alias_candidates(["John S. Doe", "John T. Doe", "John Doe", "Jane Roe", "Doe"]) == (
        ("John Doe", "John S. Doe"),
        ("John Doe", "John T. Doe"),
    )
    assert alias_candidates(["John S. Doe", "John T. Doe"]) == ()
