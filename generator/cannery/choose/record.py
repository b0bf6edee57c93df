"""The tuning record: the plan of a network for a target, made for version control.

`<model>.<target>.tuning.json`: sorted keys, one line per step, nothing that changes on its own.
Only the plan counts; compiler, processor and flags are recorded as provenance and change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cannery.atomic import remove_stale, replace_file
from cannery.choose.plan import Segment
from cannery.choose.recheck import emulated_error
from cannery.choose.recorded_device import RecordedDevice
from cannery.choose.signature import step_signature
from cannery.errors import RecordError
from cannery.ir.graph import Graph
from cannery.layouts import ORDERS
from cannery.ops.shared import epilogue
from cannery.schedule.program import Choice, Step
from cannery.schedule.schedule import MATH, Params, Schedule, all_schedules
from cannery.target.isa import Isa
from cannery.target.runner import Origin
from cannery.user_files import read_file

FORMAT = 1
SUFFIX = ".tuning.json"

#: Factor by which a network's error may differ between compilers and processors.
SAME_ERROR = 1.5


#: Microseconds, or a relative error.
Positive = Annotated[float, Meta(ge=0)]


class RunnerUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A schedule with its parameters, its time in microseconds and its error."""

    schedule: str
    version: Annotated[int, Meta(ge=1)]
    params: dict[str, int | str | bool]
    us: Positive | None = None
    error: Positive | None = None


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One step: what it is (`nodes`, `signature`), the choice, and its results."""

    nodes: Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1)]
    signature: str
    schedule: str
    version: Annotated[int, Meta(ge=1)]
    params: dict[str, int | str | bool]
    reads: list[str]
    writes: list[str]
    origin: str
    us: Positive | None = None
    error: Positive | None = None
    runner_up: RunnerUp | None = None

    def same_choice(self, other: Entry) -> bool:
        """Whether both make the same choice for the same step."""
        return (self.nodes, self.signature, self.schedule, self.version, self.params) == (
            other.nodes, other.signature, other.schedule, other.version, other.params
        )  # fmt: skip


class Many(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many images are computed at once: tuned for `images`, worthwhile for `chunks`.

    `steps` are the stacked ones, see `cannery.lowering.stack`.
    """

    images: Annotated[int, Meta(ge=2)]
    chunks: list[Annotated[int, Meta(ge=2)]]
    steps: list[Entry]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A whole record. `key` is that of the graph without its weights and the generating options.

    `context` says whether caches were warm or cold during tuning; `error` is the whole network's:
    max|y - ref| / max|ref| of the worst output. `device` is where the times were taken; None in
    records of older versions.
    """

    format: int
    cannery: str
    model: str
    target: str
    isa: str
    bits: int
    key: str
    provenance: dict[str, str]
    steps: list[Entry]
    many: Many | None = None
    context: Literal["warm", "cold"] = "warm"
    error: Positive | None = None
    device: RecordedDevice | None = None


@dataclass(frozen=True)
class Found:
    """A record, the file it came from, and what is wrong with single steps (by index)."""

    path: Path
    record: Record
    choices: Mapping[int, Choice] = field(default_factory=dict)
    unusable: Mapping[int, str] = field(default_factory=dict)


def record_name(model: Path, target: str, form: str = "") -> str:
    """`ball.atom32.tuning.json`; for a quantised network `ball.atom32.int16.tuning.json`."""
    return ".".join(filter(None, (model.stem, target, form))) + SUFFIX


def record_path(model: Path, target: str, tuning: Path | None, form: str = "") -> Path:
    """Where the record of a model belongs: `tuning` is a record, a folder, or None (beside it)."""
    if tuning is None:
        return model.parent / record_name(model, target, form)
    if tuning.is_dir():
        return tuning / record_name(model, target, form)
    return tuning


#: The suffixes of model files.
MODELS = (".h5", ".hdf5", ".keras", ".onnx", ".tflite")


def read_record(path: Path) -> Record | None:
    """The record in a file; None if there is no file. Raises RecordError with the place."""
    where = str(path)
    try:
        data = read_file(path, error=RecordError)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordError(f"cannot be read: {error.strerror}", where=where) from None
    cure = "restore it from version control, or delete it and tune again"
    try:
        content = json.loads(data, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if path.suffix in MODELS:
            cure = "name the .tuning.json that cannery autotune writes, or its folder"
            raise RecordError("a model, not a tuning record", where=where, cure=cure) from None
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not a text"
        raise RecordError(f"damaged: {reason}", where=where, cure=cure) from None
    if isinstance(content, dict) and content.get("format") not in (None, FORMAT):
        raise RecordError(
            f"format {content['format']!r}, this Cannery reads {FORMAT}", where=where,
            cure="use the Cannery that wrote it, or tune again",
        )  # fmt: skip
    try:
        record = msgspec.convert(content, Record)
        _check_orders(record.steps)
    except (msgspec.ValidationError, ValueError) as error:
        raise RecordError(f"damaged: {error}", where=where, cure=cure) from None
    return record


def _check_orders(steps: Sequence[Entry]) -> None:
    """Raise ValueError for a name that no layout has."""
    for number, entry in enumerate(steps):
        for name in ("reads", "writes"):
            for order in getattr(entry, name):
                if order not in ORDERS:
                    known = ", ".join(ORDERS)
                    raise ValueError(
                        f"{order!r} is not one of {known} - at `$.steps[{number}].{name}`"
                    )


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not a number")


def write_record(path: Path, record: Record) -> bool:
    """Write a record if it changes anything; an error leaves the old one. Raises OSError."""
    data = format_record(record).encode()
    remove_stale(path.parent)
    try:
        if path.read_bytes() == data:
            return False
    except OSError:
        pass
    replace_file(path, data)
    return True


def format_record(record: Record) -> str:
    """The text of a record."""
    content: dict[str, Any] = msgspec.to_builtins(record)
    steps = _lines(content.pop("steps"))
    many = content.pop("many", None)
    head = json.dumps(content, indent=1, sort_keys=True).removesuffix("\n}")
    if many:
        stacked = _lines(many.pop("steps"))
        start = json.dumps(many, sort_keys=True).removesuffix("}")
        head += f',\n "many": {start}, "steps": [{stacked}]}}'
    return f'{head},\n "steps": [{steps}]}}\n'


def _lines(steps: Sequence[Mapping[str, Any]]) -> str:
    return "\n" + ",\n".join(json.dumps(step, sort_keys=True) for step in steps) + "\n"


def find_choices(
    path: Path,
    record: Record,
    graph: Graph,
    segments: Sequence[Segment],
    isa: Isa,
    max_error: float,
) -> Found:
    """The choices that a record holds, by segment, and why it has none for other steps.

    The segments found never overlap. An inexact schedule whose recorded error exceeds `max_error`
    gives way to its runner-up.
    """
    if (record.isa, record.bits) != (isa.name, isa.bits):
        why = f"the record is for {record.isa}, {record.bits} bit"
        singles = (k for k, segment in enumerate(segments) if not segment.step.parts)
        return Found(path, record, {}, dict.fromkeys(singles, why))
    choices: dict[int, Choice] = {}
    unusable: dict[int, str] = {}
    for index, entry in match(record, graph, segments).items():
        if entry is None:
            unusable[index] = "it has no entry"
            continue
        found = _choice(graph, segments[index].step, isa, entry, max_error)
        if isinstance(found, str):
            unusable[index] = found
        else:
            choices[index] = found
    return Found(path, record, choices, unusable)


def _choice(graph: Graph, step: Step, isa: Isa, entry: Entry, max_error: float) -> Choice | str:
    """What an entry chooses, or why that is impossible."""
    first = resolve(graph, step, isa, entry.schedule, entry.version, entry.params)
    if isinstance(first, str):
        return first
    schedule, params = first
    if not schedule.is_inexact(params):
        return Choice(schedule, params, "record", entry.us)
    error = recorded = entry.error or 0.0
    bound = max_error
    if schedule.inexact:
        # The weights may have changed. The network as a whole was judged when it was tuned, so no
        # step may become much worse than it was then.
        emulated = emulated_error(graph, step, schedule)
        if emulated is not None:
            error, bound = emulated, min(max_error, max(max_error / 2, 1.5 * recorded))
    if error <= bound:
        return Choice(schedule, params, "record", entry.us)
    other = entry.runner_up
    second: tuple[Schedule, Params] | str = "it has no runner-up"
    if other is not None:
        second = resolve(graph, step, isa, other.schedule, other.version, other.params)
    if isinstance(second, str):
        return f"{schedule.id} has an error of {error:.2g}, and {second}"
    return Choice(second[0], second[1], "record", other.us if other else None)


def match(record: Record, graph: Graph, segments: Sequence[Segment]) -> dict[int, Entry | None]:
    """The entries of the segments that the record's cut takes; None for a step without one.

    At each step, in this order: the entry of the same nodes, the next entry in the record, any
    entry that computes the same. Layers are often renamed when a model is retrained.
    """
    starts: dict[int, list[int]] = {}
    for index, segment in enumerate(segments):
        starts.setdefault(segment.first, []).append(index)
    signatures = [step_signature(graph, segment.step) for segment in segments]
    found: dict[int, Entry | None] = {}
    position, following = 0, 0
    length = max((segment.end for segment in segments), default=0)
    while position < length:
        here = [
            (index, number)
            for index in starts[position]
            for number, entry in enumerate(record.steps)
            if entry.signature == signatures[index]
        ]
        index, best = starts[position][0], None
        if here:
            index, best = min(
                here, key=lambda pair: _distance(record.steps, segments, pair, following)
            )
        found[index] = None if best is None else record.steps[best]
        following = following if best is None else best + 1
        position = segments[index].end
    return found


def _distance(
    entries: Sequence[Entry], segments: Sequence[Segment], pair: tuple[int, int], following: int
) -> tuple[bool, bool, int]:
    """How far an entry is from the one that a segment should have: other nodes, then another
    place.
    """
    index, number = pair
    nodes = [node.name for node in segments[index].step.nodes]
    return entries[number].nodes != nodes, number != following, number


def resolve(
    graph: Graph, step: Step, isa: Isa, schedule: str, version: int, params: Mapping[str, Any]
) -> tuple[Schedule, Params] | str:
    """The schedule and parameters that a record names, or why they are no longer usable."""
    known = all_schedules().get(schedule)
    if known is None:
        return f"this Cannery has no schedule {schedule}"
    if known.version != version:
        return f"{schedule} is now version {known.version}, the record has {version}"
    reason = known.why_not(graph, step, isa)
    if reason:
        return f"{schedule} cannot compute it: {reason}"
    form = params.get(MATH)
    if form is not None and form not in epilogue.approximations(step):
        return f"no activation of the step has a form {form!r}"
    given = {k: v for k, v in params.items() if k != MATH}
    for candidate in known.candidates(graph, step, isa):
        if dict(candidate) == given:
            return known, candidate if form is None else {**candidate, MATH: str(form)}
    return f"{known.id}{json.dumps(given, sort_keys=True)} is not a candidate of this Cannery"


def make_entry(
    graph: Graph,
    step: Step,
    isa: Isa,
    choice: Choice,
    *,
    error: float | None,
    runner_up: RunnerUp | None,
) -> Entry:
    """The entry of a step, with numbers rounded to reproducible digits."""
    schedule, params = choice.schedule, choice.params
    reads = schedule.reads(graph, step, params, isa)
    writes = schedule.writes(graph, step, params, isa)
    return Entry(
        [node.name for node in step.nodes], step_signature(graph, step), schedule.id,
        schedule.version, dict(params), [w.order for w in reads], [w.order for w in writes],
        choice.origin, rounded(choice.us, 3), rounded(error, 2), runner_up,
    )  # fmt: skip


def rounded(value: float | None, digits: int) -> float | None:
    """A number with this many significant digits."""
    return None if value is None else float(f"{value:.{digits}g}")


def confirmed(
    entries: Sequence[Entry], old: Record | None, *, same_device: bool = True
) -> list[Entry]:
    """The entries, but keeping the old line if it says the same from an origin that is no worse.

    From an equal origin, only if the old times are from the `same_device`.
    """
    if old is None:
        return list(entries)
    result = []
    for entry in entries:
        same = next((e for e in old.steps if e.same_choice(entry)), None)
        worth = 0 if same is None else _rank(entry.origin) - _rank(same.origin)
        keep = same is not None and (worth > 0 or (worth == 0 and same_device))
        result.append(same if keep and same is not None else entry)
    return result


def confirmed_error(
    error: float | None, entries: Sequence[Entry], old: Record | None
) -> float | None:
    """The network's error, rounded; the old one if it is nearly equal and the plan is the same.

    None: it was not run this time.
    """
    known = old.error if old is not None and old.steps == list(entries) else None
    if error is None:
        return known
    if known is not None and known / SAME_ERROR <= error <= known * SAME_ERROR:
        return known
    return rounded(error, 2)


def _rank(origin: str) -> int:
    order = [o.value for o in Origin]
    return order.index(origin) if origin in order else len(order)


def better_origin(entry: Entry, origin: Origin) -> bool:
    """Whether an entry's time is worth more than one from `origin`."""
    return _rank(entry.origin) < _rank(origin.value)
