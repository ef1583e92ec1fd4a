"""How much each readable scope counts."""

import pytest

from query.weights import LEAST_SLOTS, authority_of, weigh_scopes
from schemas.graph import Contribution, EdgeContribution
from schemas.intent import Purpose
from schemas.units import ScopeLevel
from shared.graphs.memory import MemoryGraph
from shared.identity import id_key
from shared.store import Membership

LADDER = (
    Membership("personal/ana", 0),
    Membership("team/platform", 1),
    Membership("department/engineering", 2),
    Membership("organization/acme", 3),
)


def graph(*relations):
    held = MemoryGraph()
    held.apply(
        Contribution(
            tenant="demo",
            id=f"relation:{source} member_of {target}",
            revision=1,
            edges=(
                EdgeContribution(source=id_key(source), relation="member_of", target=id_key(target), weight=weight),
            ),
        )
        for source, target, weight in relations
    )
    held.refresh()
    return held.snapshot("demo")


def weigh(memberships=LADDER, purpose=Purpose.GENERAL, *, principal="ana", relations=(), **given):
    return weigh_scopes(
        memberships,
        principal=principal,
        graph=graph(*relations),
        purpose=purpose,
        depth=given.pop("depth", 100),
        **given,
    )


def test_where_the_graph_does_not_reach_the_hops_of_the_memberships_count():
    found = {weight.scope: (weight.distance, weight.proximity) for weight in weigh()}
    assert found == {
        "personal/ana": (0.0, 1.0),
        "team/platform": (1.0, 1 / 2),
        "department/engineering": (2.0, 1 / 3),
        "organization/acme": (3.0, 1 / 4),
    }


def test_a_weak_tie_is_further_than_a_strong_one():
    teams = (Membership("team/a", 1), Membership("team/b", 1))
    found = weigh(teams, relations=[("ana", "a", 1.0), ("ana", "b", 0.5)])
    assert [weight.scope for weight in found] == ["team/a", "team/b"]
    assert found[0].distance < found[1].distance


@pytest.mark.parametrize(
    ("purpose", "first"),
    [
        (Purpose.GENERAL, "personal/ana"),
        (Purpose.DEBUGGING, "personal/ana"),
        (Purpose.HOW_TO, "personal/ana"),
        (Purpose.REVIEW, "team/platform"),
        (Purpose.ARCHITECTURE, "team/platform"),
        (Purpose.SECURITY, "department/engineering"),
        (Purpose.POLICY, "organization/acme"),
        (Purpose.ONBOARDING, "organization/acme"),
    ],
)
def test_each_purpose_puts_its_own_scope_first(purpose, first):
    assert weigh(purpose=purpose)[0].scope == first


def test_the_weight_is_the_product_of_its_parts():
    for weight in weigh((Membership("team/platform", 1, role="lead"),), Purpose.REVIEW):
        assert weight.weight == pytest.approx(weight.proximity * weight.bias * weight.authority)
        assert weight.authority == 1.1


def test_authority_never_falls_below_one_and_rises_with_seniority():
    ladder = [authority_of(role) for role in (None, "member", "Tech-Lead", "senior engineer", "Director")]
    assert ladder == sorted(ladder)
    assert ladder[0] == ladder[1] == 1.0


def test_slots_are_shared_in_proportion_and_nobody_gets_fewer_than_three():
    found = weigh(depth=20)
    assert all(weight.slots >= LEAST_SLOTS for weight in found)
    assert [weight.slots for weight in found] == sorted((weight.slots for weight in found), reverse=True)


def test_the_trusted_caller_is_equally_near_to_all():
    found = weigh(tuple(Membership(f"team/{name}", 0) for name in "ab"), principal=None)
    assert {weight.proximity for weight in found} == {1.0}
    assert {weight.distance for weight in found} == {None}


def test_narrowing_only_ever_leaves_out():
    found = weigh(narrow=("team/platform", "team/secret", "department/other"))
    assert [weight.scope for weight in found] == ["team/platform"]
    assert weigh(narrow=("team/secret",)) == ()
    assert weigh(narrow=()) == ()


def test_levels_leave_out_the_other_levels():
    found = weigh(levels=(ScopeLevel.DEPARTMENT, ScopeLevel.ORGANIZATION))
    assert {weight.scope for weight in found} == {"department/engineering", "organization/acme"}


def test_two_ways_into_a_scope_count_as_the_shorter():
    (found,) = weigh((Membership("team/platform", 3), Membership("team/platform", 1)))
    assert found.distance == 1.0


def test_no_membership_is_no_scope():
    assert weigh(()) == ()


def test_equal_weights_are_ordered_by_scope():
    found = weigh((Membership("team/b", 1), Membership("team/a", 1)))
    assert [weight.scope for weight in found] == ["team/a", "team/b"]
