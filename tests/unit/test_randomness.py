"""Laws of the random bits of new ids."""

from concurrent.futures import ThreadPoolExecutor

from conversations.protocol.identifiers import RANDOM_BITS
from conversations.randomness import Randomness

EACH, THREADS = 2_000, 4


def test_threads_that_draw_at_the_same_time_draw_different_bits() -> None:
    """Two dialogs of one id would be one dialog."""
    random = Randomness()

    def draw(_: int) -> list[int]:
        return [random.getrandbits(RANDOM_BITS) for _ in range(EACH)]

    with ThreadPoolExecutor(THREADS) as pool:
        drawn = [number for found in pool.map(draw, range(THREADS)) for number in found]
    assert len(set(drawn)) == EACH * THREADS
    assert max(drawn) >> (RANDOM_BITS - 4) == 15, "all bits are used"
    assert max(drawn) >> RANDOM_BITS == 0


def test_other_numbers_are_drawn_as_usual() -> None:
    """Jitter needs them."""
    random = Randomness()
    assert 0 <= random.random() < 1
    assert {random.getrandbits(1) for _ in range(100)} == {0, 1}
