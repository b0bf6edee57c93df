"""Every option that changes the generated code, defined once.

The command line (`cannery.cli`) and CMake (`cmake/CanneryOptions.cmake`) are rendered from `SPECS`;
a test compares. `Options` is what the pipeline receives: parsed, checked, immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cannery import option_values as parse
from cannery.errors import OptionError
from cannery.ir.tensor import DType
from cannery.names import check_model_name, make_identifier
from cannery.options_given import flag_of, text_of, texts_of

#: Lines of a function that people and compilers can handle.
MAX_LINES = 3000


@dataclass(frozen=True)
class Options:
    """What to generate from a model, and for what. Construct it with `make_options`, which checks.

    `target` names a row of `cannery.target.targets`; `isa` overrides its instruction set. `name` is
    the C identifier before every symbol. `tuning` is a record or a folder of records (None: beside
    the model); `locked` makes an entry missing there an error. `max_error` bounds
    max|y - ref| / max|ref| per output, `max_lines` the lines of functions that can be cut,
    `max_size` the bytes of constants, in multiples of the model's, where no record chooses,
    `max_ram` the bytes of workspace and state, `max_flash` those of code and constants of a
    microcontroller, by estimate; `fast_ram` are the bytes of fast memory that get a region of the
    workspace; `section` names where weights, code and the static workspace are placed;
    `split` is the number of C files that the steps are spread over. `dims` fixes dimensions that
    the model leaves open, `fixed` has inputs that are constants, `max_trips` limits loops,
    `io_layout` is the order of image tensors at the interface; `io_type` "raw" makes its floats the
    integers that a quantised network computes with.
    `input_dtype`, by tensor: a uint8 input is read as `scale * value + offset`, both for all
    channels or by channel. `reverse_channels` names inputs whose last channel comes first (BGR for
    a network of RGB). `input_view` names
    the inputs that are regions of larger images, read by strides. `many` is the largest number of
    samples that `<name>_run_many` computes together. `parallel` adds functions that run on several
    cores, `openmp` these and a pool of OpenMP's threads. `shared` marks the functions that a shared
    library exports, `weights` is the file of all weights, where the code has none, `compiled_nn`
    adds the interface of CompiledNN, `class_names` and `metadata`
    texts. `streaming` asks for the network of the next steps, as many as the first `block` says,
    and functions for the others; its outputs are `latency` steps late. `time_axis` says which axes
    of inputs are steps, in the model's order. `weights_as` "float16" stores weights so where
    `max_error` allows, "int4", "palette4" and "palette2" give those of int8 few levels where
    `max_loss` allows, `compute_as` "float16" also computes so where kernels can, "bfloat16"
    multiplies so. `state` pairs inputs with the outputs that they are in the next run. `noise` is
    where random numbers come from. `rename` maps tensor names of the model to names in C. `outputs`
    cuts the network there.
    `quantize` asks for integer layers, scaled by what `calibration` shows, where no output loses
    more than `max_loss`. `same_everywhere` makes layers an error about whose bits processors may
    disagree. `macros` is what the compiler prints for `-dM -E` under the flags in use: the code
    keeps to what it proves. `trace_steps` makes the library count the time of its steps,
    `dump_values` show the values of its runs. `cc` to `device` say how to build and run what is
    measured, `stand_in` that this may be on another processor than the target's. `tuned_by` is what
    messages advise to make a tuning record, `project` the file that some of all this was read from.
    `ranges` are those of a library whose weights are apart, see `Quantization`.
    """

    model: Path
    name: str
    target: str = "native"
    isa: tuple[str, ...] = ()
    tuning: Path | None = None
    locked: bool = False
    max_error: float = 1e-4
    max_lines: int = MAX_LINES
    max_size: float | None = None
    max_ram: int | None = None
    max_flash: int | None = None
    fast_ram: int | None = None
    section: Mapping[str, str] = field(default_factory=dict)
    split: int = 1
    io_layout: str = "model"
    io_type: str = "model"
    batch: int = 1
    dims: Mapping[str, int] = field(default_factory=dict)
    input_dtype: Mapping[str, DType] = field(default_factory=dict)
    scale: float | tuple[float, ...] | None = None
    offset: float | tuple[float, ...] | None = None
    reverse_channels: tuple[str, ...] = ()
    input_view: tuple[str, ...] = ()
    many: int = 1
    parallel: bool = False
    openmp: bool = False
    fixed: Mapping[str, str] = field(default_factory=dict)
    max_trips: int | None = None
    noise: str | None = None
    peepholes: Path | None = None
    custom: Mapping[str, Path] = field(default_factory=dict)
    shared: bool = False
    weights: Path | None = None
    streaming: bool = False
    block: tuple[int, ...] = (1,)
    latency: int | str = 0
    time_axis: Mapping[str, int | str] = field(default_factory=dict)
    variable_length: bool = False
    weights_as: str = parse.FLOATS
    compute_as: str = parse.FLOATS
    quantize: DType | None = None
    calibration: Path | None = None
    max_loss: float = 0.1
    same_everywhere: bool = False
    state: Mapping[str, str] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    macros: Path | None = None
    cc: str | None = None
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    runner: tuple[str, ...] = ()
    device: tuple[str, ...] = ()
    compiled_nn: bool = False
    class_names: Path | None = None
    metadata: bool = False
    trace_steps: bool = False
    dump_values: bool = False
    stand_in: bool = False
    tuned_by: str | None = None
    project: Path | None = None
    ranges: tuple[tuple[int, float], ...] | None = None

    def __post_init__(self) -> None:
        for name in ("custom", "dims", "fixed", "input_dtype", "rename", "state", "time_axis"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def form(self) -> str:
        """What distinguishes the network's tuning record from that of its float form; empty for the
        float form.
        """
        words = [self.quantize.value] if self.quantize else []
        words += [f"{self.weights_as}-weights"] if self.weights_as != parse.FLOATS else []
        words += [self.compute_as] if self.compute_as != parse.FLOATS else []
        words += ["raw"] if self.io_type == "raw" else []
        words += [f"block{self.block[0]}"] if self.block[0] > min(self.block) else []
        return "-".join(words)

    @property
    def each_block(self) -> tuple[Options, ...]:
        """The same options for each block, whose network comes first."""
        rest = tuple(self.block)
        return tuple(replace(self, block=(size, *(n for n in rest if n != size))) for size in rest)


class Group(Enum):
    """What an option is about; help and documentation list options by group, in this order."""

    MODEL = "Model"
    PROCESSOR = "Processor"
    NUMBERS = "Numbers"
    INTERFACE = "Interface"
    TUNING = "Tuning"
    TOOLS = "Toolchain"
    DEBUG = "Debugging"


class Kind(Enum):
    """How often and with what an option is given; CMake's three kinds of keywords."""

    FLAG = "no value"
    ONE = "one value"
    MANY = "any number of values"


@dataclass(frozen=True)
class Spec:
    """One option. `parse` takes the text (MANY: all the texts) and raises OptionError.

    `name` is the field of Options; `--max-error` and MAX_ERROR follow from `keyword`. `example` is
    a value as users write it; a `hidden` option is for builds, not people.
    """

    name: str
    kind: Kind
    help: str
    parse: Callable[[Any], Any] = bool
    metavar: str = ""
    keyword: str = ""
    cmake: bool = True
    is_path: bool = False
    group: Group = Group.MODEL
    example: str = ""
    hidden: bool = False

    @property
    def flag(self) -> str:
        """The option of the command line."""
        return "--" + (self.keyword or self.name).replace("_", "-")

    @property
    def cmake_keyword(self) -> str:
        """The keyword of add_nn_model()."""
        return (self.keyword or self.name).upper()


_ONE, _MANY, _FLAG = Kind.ONE, Kind.MANY, Kind.FLAG

_GROUPED: dict[Group, tuple[Spec, ...]] = {
    Group.MODEL: (
        Spec("name", _ONE, "Prefix of all C symbols (default: from the file's name).",
             check_model_name, "ID", example="ball_net"),
        Spec("batch", _ONE, "Samples per run (default: 1).", parse.count, "N", example="4"),
        Spec("dims", _MANY, "Size of a dimension that the model leaves open.",
             parse.dims, "NAME=N", keyword="dim", example="T=100"),
        Spec("fixed", _MANY, "Input that is a constant: one number, or several by commas.",
             parse.constants, "TENSOR=VALUE", keyword="set", example="sr=16000"),
        Spec("outputs", _MANY, "Tensors to return instead of the model's outputs.", tuple, "TENSOR",
             example="dense_3"),
        Spec("state", _MANY, "Input that carries an output of the previous run: part of the state.",
             parse.states, "IN=OUT", example="h_in=h_out"),
        Spec("max_trips", _ONE, "Most iterations of loops whose end is known only at run time.",
             parse.trips, "N", example="8"),
        Spec("noise", _ONE, "Where random numbers come from: seed, input or mean.", parse.noise,
             "FROM", example="seed"),
        Spec("peepholes", _ONE, "Peepholes of LSTM layers: a .npz file, one array per layer.",
             Path, "FILE", is_path=True, example="peepholes.npz"),
        Spec("custom", _MANY, "Operator or layer that a C file of yours computes.",
             parse.files_by_name, "NAME=FILE", example="MyOp=my_op.c"),
        Spec("class_names", _ONE, "Names of the classes, a line each: <name>_class_name.", Path,
             "FILE", is_path=True, example="classes.txt"),
        Spec("metadata", _FLAG, "Keep what the model's file says of itself: <name>_metadata."),
    ),
    Group.PROCESSOR: (
        Spec("target", _ONE,
             "Processor to generate for; `cannery targets` lists them.", str, "NAME",
             example="atom32"),
        Spec("isa", _MANY, "Instruction set; give several, and the library picks at run time.",
             parse.isas, "NAME", example="avx2"),
        Spec("max_lines", _ONE,
             f"Split generated functions longer than this (default: {MAX_LINES}).",
             parse.count, "N", example="1000"),
        Spec("max_size", _ONE, "Bound of untuned networks' constants, in multiples of the weights.",
             parse.positive, "X", example="1.5"),
        Spec("max_ram", _ONE, "Bound of workspace and state, in bytes, K or M.",
             parse.size, "N", example="150K"),
        Spec("max_flash", _ONE,
             "Bound of code and constants on a microcontroller, estimated, in bytes, K or M.",
             parse.size, "N", example="256K"),
        Spec("fast_ram", _ONE,
             "Bytes of fast memory for what is accessed most: the workspace has two regions.",
             parse.size, "N", example="64K"),
        Spec("section", _MANY, "Section of the object files for weights, code, workspace or fast.",
             parse.sections, "WHAT=NAME", example="weights=.ext_flash"),
        Spec("split", _ONE, "Spread the code over this many C files, built at once (default: 1).",
             parse.files, "N", example="4"),
    ),
    Group.NUMBERS: (
        Spec("max_error", _ONE,
             "Largest allowed max|y - ref| / max|ref| per output (default: 1e-4).",
             parse.positive, "E", example="1e-3"),
        Spec("weights_as", _ONE,
             "Store weights as float32, or as float16 where --max-error allows; with --quantize "
             "int8 as int4, palette4 or palette2 where --max-loss allows.",
             parse.weights_as, "TYPE", example="float16"),
        Spec("compute_as", _ONE,
             "Compute in float32, or in float16 or bfloat16 where layers and --max-error allow.",
             parse.compute_as, "TYPE", example="float16"),
        Spec("quantize", _ONE, "Compute with integers where layers can: int16 or int8.",
             parse.quantize, "TYPE", example="int16"),
        Spec("calibration", _ONE, "Typical inputs: a .npz file, one array per input.",
             Path, "FILE", is_path=True, example="samples.npz"),
        Spec("max_loss", _ONE,
             "Largest loss that --quantize may cause in an output (default: 0.1).",
             parse.positive, "E", example="0.005"),
        Spec("same_everywhere", _FLAG,
             "Fail unless every processor computes the same bits."),
    ),
    Group.INTERFACE: (
        Spec("io_layout", _ONE, "Order of image tensors at the interface: model, nhwc or nchw.",
             parse.io_layout, "ORDER", example="nhwc"),
        Spec("io_type", _ONE,
             "Type at the interface: model, or raw (a quantised network's integers).",
             parse.io_type, "TYPE", example="raw"),
        Spec("input_dtype", _MANY, "Element type of an input: uint8 or float32.",
             parse.dtypes, "TENSOR=TYPE", example="image=uint8"),
        Spec("scale", _ONE,
             "A uint8 input means scale * value + offset (default: 1); S,S,S by channel.",
             parse.by_channel, "S", example="0.0039"),
        Spec("offset", _ONE, "See --scale (default: 0).", parse.by_channel, "O", example="-1"),
        Spec("reverse_channels", _MANY,
             "Image inputs in reversed channel order: BGR for a network trained on RGB.",
             parse.distinct, "TENSOR", example="image"),
        Spec("input_view", _MANY,
             "Image inputs that are regions of a larger image, read through strides.",
             parse.distinct, "TENSOR", example="image"),
        Spec("rename", _MANY, "Name of a tensor in C.", parse.renames, "TENSOR=NAME",
             example="dense_3=scores"),
        Spec("many", _ONE, "Samples that <name>_run_many computes at once (default: 1).",
             parse.chunk, "N", example="8"),
        Spec("parallel", _FLAG, "Add <name>_run_parallel, which runs on your own thread pool."),
        Spec("openmp", _FLAG, "Like PARALLEL, and add <name>_openmp, a pool of OpenMP threads."),
        Spec("shared", _FLAG, "Make a shared library, which exports the functions of the header."),
        Spec("compiled_nn", _FLAG, "Add <name>_compiled_nn.h, the interface of CompiledNN."),
        Spec("weights", _ONE, "Keep the weights in this file, which programs give at run time.",
             Path, "FILE", is_path=True, example="ball.weights"),
        Spec("streaming", _FLAG,
             "Run a network over time step by step; the caller keeps the state."),
        Spec("block", _MANY,
             "Steps of a call with STREAMING (default: 1); several: a function for each.",
             parse.blocks, "N", example="64"),
        Spec("latency", _ONE,
             "Steps by which outputs may be late with STREAMING, or auto: as few as the network "
             "needs.",
             parse.latency, "N", example="auto"),
        Spec("time_axis", _MANY,
             "Axis of an input that is time with STREAMING, from 0; or none (default: found).",
             parse.time_axes, "TENSOR=AXIS", example="image=2"),
        Spec("variable_length", _FLAG,
             "Accept sequences up to the model's number of steps."),
    ),
    Group.TUNING: (
        Spec("tuning", _ONE, "Tuning record, or a folder of them (default: next to the model).",
             Path, "PATH", is_path=True, example="tuning/"),
        Spec("locked", _FLAG, "Fail if the tuning record does not cover every layer."),
        Spec("stand_in", _FLAG, "Accept times of a machine that is not the target's processor."),
    ),
    Group.TOOLS: (
        Spec("cc", _ONE, "Compiler, with flags if needed; @FILE reads the command from a file.",
             parse.command_or_file, "COMMAND", cmake=False, example="clang"),
        Spec("cflags", _MANY, "Flags for the compiler.", parse.words, "FLAGS", cmake=False,
             example="-O2"),
        Spec("ldflags", _MANY, "Flags for the linker.", parse.words, "FLAGS", cmake=False,
             example="-static"),
        Spec("runner", _MANY, "Command that runs a program for the target: `CMD program args...`.",
             parse.commands, "CMD", cmake=False, example="./on-nao"),
        Spec("device", _MANY,
             "Device to run programs on: ssh:user@host[:port], or a name from devices.toml.",
             parse.devices, "NAME", cmake=False, example="ssh:nao@10.0.0.5"),
        Spec("macros", _ONE,
             "The compiler's macros (`cc -dM -E`): use the instruction sets they prove.",
             Path, "FILE", cmake=False, example="macros.txt", hidden=True),
        Spec("tuned_by", _ONE, "What messages suggest for making a record (default: a command).",
             str, "TEXT", cmake=False, example="make tune", hidden=True),
    ),
    Group.DEBUG: (
        Spec("trace_steps", _FLAG,
             "Count the time of each step in the library: <name>_trace_read."),
        Spec("dump_values", _FLAG, "Let the library show each value of a run: <name>_dump."),
    ),
}  # fmt: skip

#: All options, group by group.
SPECS: tuple[Spec, ...] = tuple(
    replace(spec, group=group) for group, specs in _GROUPED.items() for spec in specs
)


def _parse(spec: Spec, raw: Any) -> Any:
    try:
        if spec.kind is Kind.FLAG:
            return flag_of(raw)
        if spec.kind is Kind.MANY:
            return spec.parse(texts_of(raw, pairs="=" in spec.metavar))
        if spec.parse is parse.by_channel and not isinstance(raw, str):
            return spec.parse(",".join(texts_of(raw)))
        return spec.parse(text_of(raw))
    except OptionError as error:
        error.where = error.where or spec.flag
        raise


def check_option(spec: Spec, raw: Any) -> None:
    """Raise OptionError where a value is malformed."""
    _parse(spec, raw)


def _is_absent(raw: Any) -> bool:
    return raw is None or (isinstance(raw, tuple) and not raw)


def make_options(model: Path, raw: Mapping[str, Any]) -> Options:
    """Options by field name: texts, as the command line gives them, or what `option_texts` takes.

    None and () mean absent; one text is a list of one. Raises OptionError, which names the option,
    for malformed or contradictory values.
    """
    values = {s.name: _parse(s, raw[s.name]) for s in SPECS if not _is_absent(raw.get(s.name))}
    values.setdefault("name", make_identifier(model.stem))
    if "macros" in values:
        values.setdefault("target", "any")
    _take_device(model, values)
    options = Options(model=model, **values)
    _check_variable_length(options)
    _check_streaming(options, values)
    _check_quantize(options, values)
    _check_compute_as(options)
    _check_weights(options)
    _check_sections(options)
    _check_fast_ram(options)
    return options


def _check_weights(options: Options) -> None:
    """Raise OptionError for what does not go together with weights in a file."""
    if options.weights and len(options.isa) > 1:
        raise OptionError(
            "the order of weights depends on the instruction set, and there are several",
            where="--weights", cure="give one --isa",
        )  # fmt: skip


def _check_sections(options: Options) -> None:
    """Raise OptionError for sections that the library would not have."""
    if options.section and len(options.isa) > 1:
        raise OptionError(
            "a library for several instruction sets has no sections of its own",
            where="--section", cure="give one --isa",
        )  # fmt: skip
    if options.weights and "weights" in options.section:
        raise OptionError(
            "the weights are in a file, not in the code", where="--section",
            cure="leave out weights=, or --weights",
        )  # fmt: skip


def _check_fast_ram(options: Options) -> None:
    """Raise OptionError for what a workspace of two regions does not go together with."""
    if options.fast_ram is None:
        if "fast" in options.section:
            raise OptionError(
                "the workspace has no fast region", where="--section",
                cure="say how large it may be with --fast-ram, or leave out fast=",
            )  # fmt: skip
        return
    others = {
        "--parallel": options.parallel, "--openmp": options.openmp, "--many": options.many > 1,
        "several --block": len(options.block) > 1, "several --isa": len(options.isa) > 1,
        "--shared": options.shared,
    }  # fmt: skip
    chosen = [flag for flag, on in others.items() if on]
    if chosen:
        raise OptionError(
            f"{chosen[0]} cannot be combined with it", where="--fast-ram",
            cure="leave out one of them",
        )  # fmt: skip


def _take_device(model: Path, values: dict[str, Any]) -> None:
    """Devices name their target if no other option does. Raises OptionError."""
    if "device" not in values:
        return
    if "runner" in values:
        raise OptionError(
            "--device cannot be combined with it", where="--runner", cure="leave out one of them"
        )
    from cannery.devices import devices_target  # `cannery.load` does without

    target = devices_target(values["device"], model)
    if target and not {"target", "isa", "macros"} & set(values):
        values["target"] = target


def _check_quantize(options: Options, given: Collection[str]) -> None:
    """Raise OptionError if only one of the options that belong together is given."""
    if options.quantize and not options.calibration:
        raise OptionError(
            "the ranges of the values are not known", where="--quantize",
            cure="name typical inputs with --calibration FILE.npz",
        )  # fmt: skip
    _check_codes(options)
    halves = options.weights_as == parse.HALVES
    if options.quantize and halves:
        raise OptionError(
            "--quantize cannot be combined with it", where="--weights-as",
            cure="leave out one of them",
        )  # fmt: skip
    for name in ("calibration", "max_loss"):
        judged = name == "calibration" and (halves or options.compute_as != parse.FLOATS)
        if name in given and not (options.quantize or judged):
            raise OptionError(
                "nothing is quantised", where="--" + name.replace("_", "-"),
                cure="add --quantize int16 or int8",
            )  # fmt: skip


def _check_codes(options: Options) -> None:
    """Raise OptionError where weights of few levels are asked for and cannot be made."""
    if options.weights_as not in parse.CODED:
        return
    where = "--weights-as"
    if options.quantize is not DType.INT8:
        raise OptionError(
            "only weights of int8 become codes", where=where, cure="add --quantize int8"
        )
    if options.weights:
        raise OptionError(
            "codes depend on the weights, which --weights keeps in a file", where=where,
            cure="leave out one of them",
        )  # fmt: skip


def _check_compute_as(options: Options) -> None:
    """Raise OptionError for options that cannot be combined with another precision."""
    others = {
        "--quantize": options.quantize is not None,
        "--weights-as float16": options.weights_as == parse.HALVES,
        "--weights": options.weights is not None, "several --block": len(options.block) > 1,
        "--same-everywhere": options.same_everywhere,
    }  # fmt: skip
    chosen = [flag for flag, on in others.items() if on]
    if options.compute_as != parse.FLOATS and chosen:
        raise OptionError(
            f"{chosen[0]} cannot be combined with it", where="--compute-as",
            cure="leave out one of them",
        )  # fmt: skip


def _check_streaming(options: Options, given: Collection[str]) -> None:
    """Raise OptionError for options that only networks that run step by step have."""
    for name in ("block", "latency", "time_axis"):
        if name in given and not options.streaming:
            raise OptionError(
                "the network computes whole sequences",
                where="--" + name.replace("_", "-"), cure="add --streaming",
            )  # fmt: skip
    if len(options.block) > 1 and options.tuning and options.tuning.suffix == ".json":
        raise OptionError(
            "calls of each size have a record of their own", where="--tuning",
            cure="name a folder",
        )  # fmt: skip
    for name in ("trace_steps", "dump_values"):
        if getattr(options, name) and len(options.block) > 1:
            raise OptionError(
                "it shows the steps of one function, and each --block has its own",
                where="--" + name.replace("_", "-"), cure="give one --block",
            )  # fmt: skip


def _check_variable_length(options: Options) -> None:
    """Raise OptionError for options that networks of variable length do not have."""
    others = {
        "--streaming": options.streaming, "--many": options.many > 1,
        "--state": bool(options.state),
    }  # fmt: skip
    chosen = [flag for flag, on in others.items() if on]
    if options.variable_length and chosen:
        steps = "leave it out: calls of _step (--block: _steps) take sequences of any length"
        cure = steps if options.streaming else "leave out one of them"
        raise OptionError(
            f"{chosen[0]} cannot be combined with it", where="--variable-length", cure=cure
        )
