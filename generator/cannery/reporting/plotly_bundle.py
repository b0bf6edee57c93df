"""plotly.js, which draws the charts of reports: the copy that the plotly package carries."""

from __future__ import annotations

from cannery.errors import ToolchainError


def plotly_text() -> str:
    """The whole of plotly.js. Raises ToolchainError with the line that installs it."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ToolchainError(
            "the charts of reports need plotly.js from the plotly package, which is not installed",
            cure="pip install 'cannery[report]', or pip install plotly",
        ) from None
    return str(get_plotlyjs())
