"""Where the random numbers of a network come from, as the option NOISE says."""

from __future__ import annotations

from collections.abc import Sequence

from cannery.errors import OptionError, UnsupportedError
from cannery.ir.graph import Graph, GraphBuilder, State
from cannery.ops.random.op import STATE, Draw, DrawNormal, NextDraw
from cannery.option_values import INPUT, MEAN

#: The state of the generator, or the caller's numbers; and the state after a run.
_NAME, _NEXT = "noise", "noise_next"


class NoNoiseError(UnsupportedError):
    """A network draws random numbers, and nothing says where they come from."""

    def __init__(self) -> None:
        super().__init__(
            "draws random numbers",
            cure="choose where they come from with --noise seed, --noise input or --noise mean",
        )


def require_no_noise(mode: str | None) -> None:
    """Raises OptionError if the option NOISE is given to a network that draws nothing."""
    if mode:
        raise OptionError("nothing draws random numbers", where="--noise", cure="leave it out")


class Noise:
    """The random numbers of a graph that is being built; `mode` is the option NOISE."""

    def __init__(self, mode: str | None, builder: GraphBuilder) -> None:
        self._mode = mode
        self._builder = builder
        self._state = ""
        self._streams = 0
        self._used = False
        self.inputs: list[str] = []
        self.notes: list[str] = []

    @property
    def mode(self) -> str:
        """The option's value. Raises NoNoiseError without it."""
        if not self._mode:
            raise NoNoiseError
        if self._mode == MEAN and not self._used:
            self.notes.append("nothing is random: what is likeliest or in the middle is taken")
        self._used = True
        return self._mode

    def drawn(self, kind: type[Draw], shape: Sequence[int], name: str) -> str:
        """A value of standard normal numbers, or of uniform ones from 0 to below 1, for a node."""
        shape = tuple(shape)
        if self.mode == INPUT:
            value = self._builder.input(self._builder.unique(_NAME), shape)
            self.inputs.append(value)
            numbers = "standard normal" if kind is DrawNormal else "uniform from 0 to below 1"
            self.notes.append(f"{value!r} takes random numbers for {name!r}, {numbers}")
            return value
        if not self._state:
            unique = self._builder.unique(_NAME)
            self._state = self._builder.input(unique, STATE.shape, STATE.dtype)
            self.inputs.append(self._state)
        self._streams += 1
        op = kind(shape, self._streams - 1)
        return self._builder.node(op, [self._state], name=self._builder.unique(f"{name}/drawn"))

    def outputs(self) -> list[tuple[str, str]]:
        """The state after a run, as name and value, if there is one."""
        if not self._state:
            return []
        name = self._builder.unique(_NEXT)
        return [(name, self._builder.node(NextDraw(), [self._state], name=name))]

    def states(self, graph: Graph, others: int = 0) -> tuple[State, ...]:
        """The same of the finished graph; as many other states come after its input and output."""
        if not self._state:
            return ()
        return (State(graph.inputs[-1 - others], graph.outputs[-1 - others]),)

    def require_used(self) -> None:
        """Raises OptionError if the option is given, but there is nothing random."""
        if not self._used:
            require_no_noise(self._mode)
