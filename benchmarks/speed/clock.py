"""Medians of candidates that take turns."""

import statistics
import time
from typing import NamedTuple


class Clock(NamedTuple):
    """How long to measure.

    Parameters
    ----------
    seconds : float
        Time for all rounds together, as far as the bounds allow.
    fewest, most : int
        Rounds; in each of them every candidate runs once. One more is a warm-up.
    """

    seconds: float
    fewest: int
    most: int

    def medians(self, candidates):
        """Seconds of each candidate.

        In turns, because the speed of a machine wanders: what slows one slows all.

        Parameters
        ----------
        candidates : dict of str to callable

        Returns
        -------
        dict of str to float
        """
        warm_up = sum(_run(candidates).values())
        n_rounds = int(self.seconds / warm_up) if warm_up else self.most
        n_rounds = min(max(n_rounds, self.fewest), self.most)
        rounds = [_run(candidates) for _ in range(n_rounds)]
        return {
            name: statistics.median(times[name] for times in rounds)
            for name in candidates
        }


def _run(candidates):
    """Seconds of one call of each."""
    times = {}
    for name, call in candidates.items():
        start = time.perf_counter()
        call()
        times[name] = time.perf_counter() - start
    return times


def repeated(call, times):
    """Return a function that makes a short call so many times."""

    def calls():
        for _ in range(times):
            call()

    return calls


FULL = Clock(seconds=5.0, fewest=5, most=101)
QUICK = Clock(seconds=0.5, fewest=2, most=25)
