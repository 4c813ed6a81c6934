"""Times of candidates that take turns."""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Times(NamedTuple):
    """Seconds of every candidate in every round.

    Parameters
    ----------
    rounds : list of dict of str to float
    """

    rounds: list

    def seconds(self, name):
        """Return the median of a candidate."""
        return statistics.median(times[name] for times in self.rounds)

    def ratio(self, above, below):
        """Return the median of a ratio; what slows a whole round cancels in it."""
        return statistics.median(times[above] / times[below] for times in self.rounds)


class Clock(NamedTuple):
    """How long to measure.

    Parameters
    ----------
    seconds : float
        Time for all rounds together, as far as the bounds allow.
    fewest, most : int
        Rounds; one more is a warm-up. In each of them every candidate runs once, or a
        few times where another one takes much longer, and the median counts.
    timer : callable, default=time.process_time
        By default the time that the processor worked for this process: on one thread
        it is the time on the clock, less what other processes took.
    """

    seconds: float
    fewest: int
    most: int
    timer: Callable = time.process_time

    def on_the_wall(self):
        """Return the clock for several threads or processes."""
        return self._replace(timer=time.perf_counter)

    def time(self, candidates):
        """Run the candidates in turns, because the speed of a machine wanders.

        Parameters
        ----------
        candidates : dict of str to callable

        Returns
        -------
        Times
        """
        once = {name: self._run(call) for name, call in candidates.items()}
        slowest = max(once.values())
        calls = {
            name: _between(1, slowest / seconds / 10, MOST_CALLS)
            for name, seconds in once.items()
        }
        one_round = sum(calls[name] * seconds for name, seconds in once.items())
        n_rounds = _between(self.fewest, self.seconds / one_round, self.most)
        return Times([self._round(candidates, calls) for _ in range(n_rounds)])

    def _round(self, candidates, calls):
        """Seconds of each candidate."""
        return {
            name: statistics.median(self._run(call) for _ in range(calls[name]))
            for name, call in candidates.items()
        }

    def _run(self, call):
        start = self.timer()
        call()
        return self.timer() - start


MOST_CALLS = 9  # in a round


def _between(least, number, most):
    return min(max(int(number), least), most)


def repeated(call, times):
    """Return a function that makes a short call so many times."""

    def calls():
        for _ in range(times):
            call()

    return calls


FULL = Clock(seconds=5.0, fewest=5, most=101)
QUICK = Clock(seconds=0.5, fewest=2, most=25)
