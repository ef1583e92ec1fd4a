"""Names: what is written differently and is one, and what is written alike and is not."""

import unicodedata

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]

COMPOSED = "Société Générale"
DECOMPOSED = unicodedata.normalize("NFD", COMPOSED)


def candidates(tenant, name, **parameters):
    """Give the names that may mean the same as this one, for people to confirm."""
    return {one["name"] for one in tenant.entity_page(name, **parameters).get("alias_candidates", ())}


def test_normalisation_forms_accents_and_case_make_one_entity_and_another_initial_never_does(tenant):
    """Case C05."""
    assert COMPOSED != DECOMPOSED
    tenant.tell(
        tenant.unit("e1", f"{COMPOSED} opened a branch."),
        tenant.unit("e2", f"{DECOMPOSED} raised its rate."),
        tenant.unit("e3", "SOCIETE GENERALE hired a CTO."),
        tenant.unit("e4", "John Doe signed the lease."),
        tenant.unit("e5", "John T. Doe paid the deposit."),
        tenant.unit("e6", "John S. Doe left the firm."),
    )
    tenant.eventually(lambda: tenant.about("John S. Doe"), "the graph has the last unit")
    for name in (COMPOSED, DECOMPOSED, "SOCIETE GENERALE", "societe generale", f"{COMPOSED} S.A."):
        assert tenant.about(name) == {"e1", "e2", "e3"}, name
    assert len(tenant.entities("generale")["entities"]) == 1

    assert {name: tenant.about(name) for name in ("John Doe", "John T. Doe", "John S. Doe")} == {
        "John Doe": {"e4"},
        "John T. Doe": {"e5"},
        "John S. Doe": {"e6"},
    }
    assert candidates(tenant, "John Doe") == {"John T. Doe", "John S. Doe"}
    assert candidates(tenant, "John T. Doe") == candidates(tenant, "John S. Doe") == {"John Doe"}
    assert tenant.found("Who paid the deposit?")[0] == "e5"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (("Müller GmbH", "MULLER", "Mu\u0308ller"), "müller gmbh"),
        (("Nordwind Inc.", "NordWind", "Nord-Wind"), "nordwind"),
        (("ＡＰＩ－４２", "API-42"), "api-42"),
        (("Zoë Brontë", "ZOE BRONTE", "Zoe\u0308 Bronte\u0308"), "Zoë Brontë"),
        (("株式会社トヨタ", "トヨタ"), "トヨタ"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_spellings_of_one_name_lead_to_the_same_units(tenant, written, name):
    """Case C05, the kind: forms, accents, width, case, humps, legal suffixes."""
    units = {f"u{number}": f"We met “{spelling}” again yesterday." for number, spelling in enumerate(written)}
    tenant.tell(*(tenant.unit(unit_id, text) for unit_id, text in units.items()))
    tenant.eventually(lambda: tenant.about(name) == set(units), f"{name} is one entity")
    for spelling in written:
        assert tenant.about(spelling) == set(units), spelling


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Room 101", "Room 102"),
        ("UA123", "UA124"),
        ("v1.2", "v1.20"),
        ("mw-3", "mw-2"),
        ("Server 07", "Server 7"),
        ("Anna B. Lund", "Anna C. Lund"),
        ("C++", "C#"),
        ("раypal.com", "paypal.com"),
        ("田中サービス", "中田サービス"),
    ],
)
def test_names_that_differ_in_what_identifies_stay_apart(tenant, first, second):
    """Case C05, the kind turned round: no folding takes a digit, an initial, a script or an ideogram away."""
    tenant.tell(
        tenant.unit("one", f"The inspector of `{first}` carries a whistle."),
        tenant.unit("two", f"The inspector of `{second}` carries a lantern."),
    )
    tenant.eventually(lambda: tenant.about(first) and tenant.about(second), "both are known")
    assert (tenant.about(first), tenant.about(second)) == ({"one"}, {"two"})
    assert tenant.found(f"What does the inspector of `{second}` carry?")[0] == "two"


def test_a_declared_person_is_proposed_for_a_name_without_the_middle_name(tenant):
    """Case C05, the kind: the proposal goes both ways, and declaring the alias settles it."""
    tenant.tell(tenant.entity("mlk", "person", "Maria Lena Kraus"), tenant.unit("u1", "Maria Kraus wrote the report."))
    tenant.eventually(lambda: tenant.about("Maria Kraus") == {"u1"}, "the short name is known")
    assert candidates(tenant, "Maria Kraus") == {"Maria Lena Kraus"}
    tenant.eventually(lambda: candidates(tenant, "Maria Lena Kraus") == {"Maria Kraus"}, "it goes both ways")
    declared = tenant.entity("mlk", "person", "Maria Lena Kraus", "Maria Kraus")
    tenant.tell({**declared, "id": "declare-mlk-again"})
    tenant.eventually(lambda: tenant.entities("Maria Kraus")["match"]["entity_id"] == "mlk", "the alias counts")
    assert tenant.about("Maria Lena Kraus") == {"u1"}
    assert tenant.entity_page("Maria Kraus")["alias_candidates"] == []


def test_a_proposal_tells_nothing_of_a_scope_that_may_not_be_read(tenant):
    """Case C05, the kind: a name that only Zoe's own unit mentions is no candidate for Yan."""
    tenant.tell(
        tenant.unit("y1", "Paul Abel waters the plants.", scope="personal/yan"),
        tenant.unit("z1", "Paul X. Abel is about to resign.", scope="personal/zoe"),
    )
    tenant.eventually(lambda: candidates(tenant, "Paul Abel") == {"Paul X. Abel"}, "whoever reads all sees both")
    assert tenant.entity_page("Paul Abel", principal="yan")["alias_candidates"] == []
