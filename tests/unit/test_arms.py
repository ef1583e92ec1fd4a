"""How much each arm counts in fusion."""

from query.arms import LEAST, MOST, arm_weights
from schemas.intent import Purpose
from shared.store import PassageHit


def cosines(*values):
    return [PassageHit(place, value, (f"u{place}",)) for place, value in enumerate(values)]


def test_a_best_hit_that_stands_out_makes_the_vector_arm_weigh_more():
    flat = arm_weights(Purpose.GENERAL, cosines(*[0.5] * 10))
    peaked = arm_weights(Purpose.GENERAL, cosines(0.8, *[0.5] * 9))
    # 8 × (0.8 - 0.5) = 2.4
    assert (flat["vector"], peaked["vector"]) == (LEAST, 2.4)
    assert flat["keyword"] == peaked["keyword"] == 1.0


def test_the_weight_is_bounded():
    assert arm_weights(Purpose.GENERAL, cosines(1.0, *[-1.0] * 9))["vector"] == MOST


def test_few_hits_say_nothing_about_how_sure_the_arm_is():
    assert arm_weights(Purpose.GENERAL, cosines(0.9, 0.1))["vector"] == 1.0
    assert arm_weights(Purpose.GENERAL, [])["vector"] == 1.0


def test_how_to_questions_lean_on_meaning():
    hits = cosines(0.7, *[0.5] * 9)
    assert arm_weights(Purpose.HOW_TO, hits)["vector"] > arm_weights(Purpose.POLICY, hits)["vector"]
