"""Random requests, put to a node and to DynamoDB Local. Skipped where Maven cannot resolve that."""
import pytest
from local import Unavailable
from oracle import Run, serving

SEEDS = 40
REQUESTS = 200


@pytest.fixture(scope="module")
def doors():
    try:
        with serving() as both:
            yield both
    except Unavailable as why:
        pytest.skip(str(why))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_answers_are_those_of_dynamodb_local_or_explained(doors, seed):
    run = Run(seed, *doors)
    differences = [str(it) for it in run.differences(REQUESTS)]
    assert not differences, "\n".join(differences)
    assert run.counts["answers"] > REQUESTS / 3, run.counts
