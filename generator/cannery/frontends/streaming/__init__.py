"""From a network for whole sequences to one for the next steps, with the past as its state."""

from cannery.frontends.streaming.states import declare_states
from cannery.frontends.streaming.stepper import AUTO, to_streaming

__all__ = ["AUTO", "declare_states", "to_streaming"]
