"""From a network for whole sequences to one for the next steps, with the past as its state."""

from cannery.frontends.streaming.calls import to_streaming
from cannery.frontends.streaming.states import declare_states
from cannery.frontends.streaming.stepper import AUTO
from cannery.frontends.streaming.voices import MOST_STEPS, side_by_side

__all__ = ["AUTO", "MOST_STEPS", "declare_states", "side_by_side", "to_streaming"]
