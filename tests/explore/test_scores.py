import json
import re

import pytest

from pellucid.evaluate.table import MEANINGS
from pellucid.explore.scores import MAIN, UNDEFINED, WORDS, score_rows


def score(value, **more):
    plain = {"low": None, "high": None, "chance": None, "dimensions": 4, "support": 50}
    return {"value": value, "reason": None} | plain | more


def scores(trained, untrained=None, least=10):
    tree = {
        "settings": {"min_support": least},
        "trained": trained,
        "untrained": {} if untrained is None else untrained,
    }
    return json.loads(json.dumps(tree))  # as the file has it


def row(trained, **more):
    [found] = score_rows(scores({"knn": trained}), **more)
    return found


def test_a_row_is_what_the_file_says():
    trained = score(0.41257, low=0.4004, high=0.4251, chance=0.1, dimensions=201, support=1234)
    before = {"knn": score(0.25)}
    [found] = score_rows(scores({"knn": trained}, before), scores({"knn": score(0.5)}))
    assert found.key == "knn"
    assert (found.value, found.interval, found.chance) == ("0.413", "0.400 to 0.425", "0.100")
    assert (found.untrained, found.other) == ("0.250", "0.500")
    assert (found.dimensions, found.support) == ("201", "1,234")
    assert found.main
    assert not found.doubtful


def test_every_known_score_has_a_row_in_the_order_of_the_table_and_no_other():
    trained = {name: score(0.5) for name in reversed(MEANINGS)} | {"of_later": score(1.0)}
    rows = score_rows(scores(trained))
    assert [found.key for found in rows] == list(MEANINGS)
    assert {found.key for found in rows if found.main} == set(MAIN)
    for found in rows:
        meaning = MEANINGS[found.key]
        assert found.meaning == meaning.words
        assert found.better == WORDS[meaning.better]
        assert found.sign == {"higher": "↑", "lower": "↓", "neither": ""}[meaning.better]


def test_labels_stand_by_themselves():
    rows = score_rows(scores({name: score(0.5) for name in MEANINGS}))
    label = {found.key: found.label for found in rows}
    assert len(set(label.values())) == len(label)
    assert label["semantic_consistency"] == "semantic consistency"
    assert label["semantic_consistency_published"] == "semantic consistency, as published"
    assert label["semantic_entropy_normalised"] == "semantic entropy, over ln C"
    assert label["retrieval_at_10"] == "retrieval P@10"
    assert label["retrieval_at_1_of_64"] == "retrieval, P@1, 64 dims"
    # Whatever stands above it in the file: a label does not depend on which rows there are.
    [found] = score_rows(scores({"semantic_consistency_published": score(0.5)}))
    assert found.label == label["semantic_consistency_published"]


@pytest.mark.parametrize("value", [None, float("nan"), float("inf")])
def test_undefined_is_a_word(value):
    found = row(score(value, low=value, high=0.5, chance=value, reason="no dimension is active"))
    assert found.value == UNDEFINED
    assert found.interval == found.chance == ""
    assert found.reason == "no dimension is active"
    assert not re.search("nan|inf|none", repr(found._replace(reason="")), re.IGNORECASE)


@pytest.mark.parametrize(
    ("support", "least", "doubtful"), [(9, 10, True), (10, 10, False), (None, 10, False)]
)
def test_few_images_are_pointed_at(support, least, doubtful):
    [found] = score_rows(scores({"knn": score(0.5, support=support)}, least=least))
    assert found.doubtful == doubtful
    assert found.support == ("" if support is None else str(support))


def test_zero_is_a_number():
    found = row(score(0.0, low=0.0, high=0.0, chance=0.0, dimensions=0, support=0))
    assert (found.value, found.interval, found.chance) == ("0.000", "0.000 to 0.000", "0.000")
    assert (found.dimensions, found.support) == ("0", "0")


def test_what_others_lack_is_left_empty():
    found = row(score(0.5), other=scores({"monosemanticity": score(0.2)}))
    assert found.other == found.untrained == ""
    [found] = score_rows(scores({"knn": score(0.5)}, {"knn": None}), scores({"knn": None}))
    assert found.other == found.untrained == ""


def test_no_scores_no_rows():
    assert score_rows(None) == []
    assert score_rows(scores({"knn": None})) == []
