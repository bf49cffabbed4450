"""A planted circuit works because of two heads, and the check tells them from their look-alikes."""

import pytest
import torch

from course_lib.exercises import check_circuit, planted_circuit
from course_lib.interpretability import ablate_head, attention_weights

PLACES = {layer: [(layer, head) for head in range(4)] for layer in range(2)}


def without(circuit, place):
    """Return the accuracy without one head."""
    return circuit.accuracy(ablate_head(circuit.model, circuit.ids, *place))


def found_by_ablation(circuit):
    """Return the head of each layer without which the fewest letters are predicted."""
    return [min(places, key=lambda place: without(circuit, place)) for places in PLACES.values()]


def look_alikes(circuit, place):
    """Return the other heads of the layer with the same attention weights."""
    weights = attention_weights(circuit.model, circuit.ids).transpose(1, 2)  # (N, H, B, T, T)
    pairs = [other for other in PLACES[place[0]] if other != place]
    return [other for other in pairs if torch.equal(weights[place], weights[other])]


def eight_back(circuit):
    """Return the head that always attends eight positions back, where it can."""
    weights = attention_weights(circuit.model, circuit.ids).diagonal(-8, -2, -1)  # (N, B, H, T - 8)
    return tuple(torch.nonzero(weights.amin(dim=(1, 3)) > 0.99).squeeze(0).tolist())


@pytest.fixture(scope="module", params=[0, 3])
def planted(request):
    """Return a circuit with its two heads."""
    circuit = planted_circuit(request.param)
    return circuit, found_by_ablation(circuit)


def test_two_heads_cause_every_repeated_letter_and_the_others_cause_none(planted):
    circuit, heads = planted
    assert circuit.accuracy(circuit.model(circuit.ids)[0]) == 1.0
    left = {place: without(circuit, place) for places in PLACES.values() for place in places}
    assert left == {place: 0.0 if place in heads else 1.0 for place in left}
    assert check_circuit(circuit, *heads).passed


def test_a_head_that_only_attends_like_the_right_one_is_refused(planted):
    circuit, heads = planted
    for role in range(2):
        decoys = look_alikes(circuit, heads[role])
        reports = [
            check_circuit(circuit, *(heads[:role] + [decoy] + heads[role + 1 :]))
            for decoy in decoys
        ]
        assert [(r.passed, r.mistake) for r in reports] == [(False, "decoy")] * 2
        hints = " ".join(report.hint for report in reports)
        assert "but writes nothing. An attention picture isn't a cause" in hints
        assert "but nothing reads what it writes. An attention picture isn't a cause" in hints
        for report, (layer, head) in zip(reports, decoys, strict=True):
            assert f"head {head} of layer {layer} attends to the token" in report.hint
            assert report.detail.endswith(f"without head {head} of layer {layer}: 1.00")


def test_a_head_that_attends_by_position_is_a_match_only_where_the_period_is_nine(planted):
    circuit, (previous, _) = planted
    place = eight_back(circuit)
    report = check_circuit(circuit, previous, place)
    assert (report.passed, report.mistake) == (False, "position_only")
    nine = circuit.ids[:, 14 - 9 : -9] == circuit.ids[:, 14:]
    assert torch.equal(nine.all(dim=1), circuit.period == 9)
    assert "rows that repeat after nine letters" in report.hint


def test_the_same_seed_draws_the_same_circuit_and_nothing_else():
    before = torch.get_rng_state()
    one, again, other = (planted_circuit(seed) for seed in (3, 3, 4))
    assert torch.equal(one.ids, again.ids) and not torch.equal(one.ids, other.ids)
    weights = [c.model.state_dict() for c in (one, again, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(*(w["embedding.weight"] for w in weights[1:]))
    assert torch.equal(before, torch.get_rng_state())


CIRCUIT = planted_circuit(0)
RIGHT = found_by_ablation(CIRCUIT)


@pytest.mark.parametrize(
    ("answer", "mistake", "said"),
    [
        (RIGHT[::-1], "roles_swapped", "their roles are swapped"),
        ([RIGHT[1], RIGHT[1]], "other_role", "`previous_token`: head"),
        ([(2, 0), RIGHT[1]], None, "`previous_token` should be a pair (layer, head)"),
        ([RIGHT[0], (1, 2, 3)], None, "`induction` should be a pair (layer, head)"),
    ],
)
def test_other_wrong_answers_are_explained(answer, mistake, said):
    report = check_circuit(CIRCUIT, *answer)
    assert report.state == "not yet" and report.mistake == mistake
    assert said in report.hint


def test_a_missing_answer_is_not_a_wrong_one():
    assert check_circuit(CIRCUIT, RIGHT[0], ...).state == "not attempted"
