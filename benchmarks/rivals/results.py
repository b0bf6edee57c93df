"""What a contest finds, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

#: How reasons of those begin who write files for rivals.
NO_FORM = "no form for "

#: A larger error, relative to the largest output, and a contestant is out.
MOST_ERROR = 1e-3


@dataclass(frozen=True)
class Result:
    """A contestant: microseconds raw and of an empty network, error, bytes, and what it is.

    `library` are the bytes of its code, `model` those of the network's own file (Cannery: in the
    library). `peak` is that of the instruction set in GFLOP/s, 0 for rivals: they take what there
    is. `rival` is whose form it is,
    `used` which instructions were seen.
    """

    name: str
    version: str
    remark: str
    threads: int
    us: float
    noop_us: float
    error: float
    library: int
    model: int
    isa: str = ""
    peak: float = 0.0
    rival: str = ""
    used: str = ""

    @property
    def net_us(self) -> float:
        """Without the time of an empty network, which is that of the calls; the smaller one."""
        return min(self.us, max(self.us - self.noop_us, 0.0)) or self.us

    @property
    def is_ours(self) -> bool:
        return bool(self.isa)

    @property
    def is_right(self) -> bool:
        return self.error <= MOST_ERROR


@dataclass(frozen=True)
class Contest:
    """The results for one network; rivals, and forms of them, that were left out, and why."""

    network: str
    macs: int
    results: tuple[Result, ...]
    absent: Mapping[str, str]
    lost: Mapping[str, str] = field(default_factory=dict)


def reasons(absent: Mapping[tuple[str, str], str], results: Sequence[Result]) -> dict[str, str]:
    """Why a rival did not take part, by its name: of those that no form of has right outputs.

    `absent` has the reasons by rival and form. Of several forms the first that is more than a
    form that is missing counts.
    """
    found: dict[str, str] = {}
    right = {result.rival for result in results if result.is_right}
    wrong = {r.rival: r.error for r in results if not r.is_right}
    for (rival, _), reason in absent.items():
        if rival not in right and found.get(rival, NO_FORM).startswith(NO_FORM):
            found[rival] = reason
    for rival, error in wrong.items():
        if rival and rival not in right:
            found[rival] = f"wrong outputs: off by {error:.1e}"
    return found


def lower_quartile(samples: Sequence[float]) -> float:
    """The value that a quarter of the samples are below; raises IndexError without samples."""
    return sorted(samples)[len(samples) // 4]


def peaks(contest: Contest) -> dict[str, float]:
    """GFLOP/s by instruction set: the highest that was seen, others only disturbed it."""
    found: dict[str, float] = {}
    for result in contest.results:
        if result.isa:
            found[result.isa] = max(result.peak, found.get(result.isa, 0.0))
    return found


def best_rival(contest: Contest, threads: int = 1) -> Result | None:
    """The fastest rival on this many threads whose outputs are right, without its calls' time."""
    found = [r for r in contest.results if not r.is_ours and r.is_right and r.threads == threads]
    return min(found, key=lambda r: r.net_us, default=None)


def best_ours(contest: Contest, threads: int = 1) -> Result | None:
    """The fastest of Cannery's on this many threads, if several took part."""
    found = [r for r in contest.results if r.is_ours and r.threads == threads]
    return min(found, key=lambda r: r.net_us, default=None)


def forms(contests: Sequence[Contest]) -> list[tuple[Contest, int]]:
    """Each contest with each number of threads that contestants had."""
    return [(c, threads) for c in contests for threads in sorted({r.threads for r in c.results})]


def titled(name: str, threads: int) -> str:
    """The name of a contestant or contest, with its threads where they are several."""
    return f"{name}, {threads} threads" if threads > 1 else name


def ratio(contest: Contest, result: Result) -> float | None:
    """How many times the best rival on as many threads takes as long, without its calls."""
    best = best_rival(contest, result.threads)
    return best.net_us / result.net_us if best and result.net_us else None


def gflops(contest: Contest, result: Result) -> float:
    """Of the direct form: two operations per multiply-accumulate."""
    return 2e-3 * contest.macs / result.net_us


def percent_of_peak(contest: Contest, result: Result) -> float | None:
    """Of the peak of the instruction set on as many cores as there are threads; None for rivals."""
    peak = peaks(contest).get(result.isa, 0.0) * result.threads
    return 100 * gflops(contest, result) / peak if peak else None
