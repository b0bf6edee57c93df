"""Values of options, read from text. All raise OptionError for what is malformed."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cannery.errors import OptionError, one_of
from cannery.ir.tensor import MAX_ELEMENTS, MAX_RANK, DType
from cannery.names import check_tensor_name
from cannery.user_files import read_file

#: Orders of image tensors at the interface; `model` is the order of the model file.
IO_LAYOUTS = ("model", "nhwc", "nchw")
#: Element types at the interface; `model` as the model has them, `raw` those of the computation.
IO_TYPES = ("model", "raw")
#: Where random numbers come from: a generator whose seed is in the state, an input for each draw,
#: or nowhere: what is likeliest, or in the middle, is taken instead.
NOISES = (SEED, INPUT, MEAN) = ("seed", "input", "mean")
#: Most samples that are computed together: more gains nothing.
MAX_MANY = 256
_INPUT_DTYPES = (DType.FLOAT32, DType.UINT8)
#: Most C files of steps: more than a machine has cores is useless.
MAX_FILES = 64
#: Most steps of a call, and most steps by which outputs are late: far beyond what is useful.
MAX_BLOCK, MAX_BLOCKS, MAX_LATENCY = 2**16, 8, 2**20
#: Most iterations of a loop, each of which becomes code.
MAX_TRIPS = 10_000
#: In place of the axis of time: the tensor has none.
NO_TIME = "none"
#: Types in which weights of float layers are stored.
STORED_FLOATS = (FLOATS, HALVES) = ("float32", "float16")

#: What weights are stored as: besides floats few levels, with codes of 4 or 2 bits.
CODED = ("int4", "palette4", "palette2")
WEIGHT_TYPES = (*STORED_FLOATS, *CODED)

#: The types in which layers compute.
BFLOATS = "bfloat16"
FLOAT_TYPES = (*STORED_FLOATS, BFLOATS)
#: Types to which layers may be quantised.
QUANTIZED = (DType.INT16, DType.INT8)


def number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise OptionError(f"{text!r} is not a finite number", cure="such as 0.5 or 1e-3")
    return value


def by_channel(text: str) -> float | tuple[float, ...]:
    """One number, or several by commas."""
    numbers = tuple(map(number, text.split(",")))
    return numbers if len(numbers) > 1 else numbers[0]


def positive(text: str) -> float:
    value = number(text)
    if value <= 0:
        raise OptionError(f"{text!r} must be greater than 0")
    return value


def count(text: str, most: int = MAX_ELEMENTS) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= most):
        end = "2^31-1" if most == MAX_ELEMENTS else most
        raise OptionError(f"{text!r} is not a whole number from 1 to {end}")
    return int(text)


def size(text: str) -> int:
    """Bytes, maybe with K or M after them, powers of 1024."""
    unit = {"K": 2**10, "M": 2**20}.get(text[-1:].upper(), 1)
    digits = text if unit == 1 else text[:-1]
    if not (digits.isascii() and digits.isdigit() and digits.strip("0")):
        raise OptionError(f"{text!r} is not a number of bytes", cure="such as 150000 or 150K")
    if len(digits) > 10 or int(digits) * unit > MAX_ELEMENTS:
        raise OptionError(f"{text!r} is more than 2^31-1 bytes", cure="leave the option out")
    return int(digits) * unit


def chunk(text: str) -> int:
    if count(text) > MAX_MANY:
        raise OptionError(
            f"{text} samples together are more than {MAX_MANY}",
            cure="8 or 16 gain all there is; <name>_run_many takes any number in chunks",
        )
    return int(text)


def blocks(texts: Sequence[str]) -> tuple[int, ...]:
    """Steps of calls, in their order; several in one text, too, as CMake's lists have them."""
    found = sorted(count(word, MAX_BLOCK) for text in texts for word in text.split() or [text])
    for size, following in pairwise(found):
        if size == following:
            raise OptionError(f"{size} is given twice", cure="leave out one of them")
    if len(found) > MAX_BLOCKS:
        raise OptionError(
            f"{len(found)} sizes of calls are more than {MAX_BLOCKS}", cure="leave some out"
        )
    return tuple(found)


def latency(text: str) -> int | str:
    if text == "auto":
        return text
    try:
        return int(text) if text == "0" else count(text, MAX_LATENCY)
    except OptionError as error:
        error.what += ", nor auto"
        raise


def time_axes(texts: Sequence[str]) -> dict[str, int | str]:
    """The axis of each tensor, from 0; or NO_TIME."""
    found: dict[str, int | str] = {}
    for name, axis in pairs(texts).items():
        known = axis == NO_TIME or (axis.isascii() and axis.isdigit() and int(axis) < MAX_RANK)
        if not known:
            raise OptionError(
                f"{axis!r} is not an axis", cure=f"such as 1; axes count from 0, or {NO_TIME}"
            )
        found[name] = axis if axis == NO_TIME else int(axis)
    return found


def trips(text: str) -> int:
    return count(text, MAX_TRIPS)


def files(text: str) -> int:
    return count(text, MAX_FILES)


def distinct(texts: Sequence[str]) -> tuple[str, ...]:
    if len(set(texts)) != len(texts):
        raise OptionError("a tensor is named twice")
    return tuple(texts)


def pairs(texts: Sequence[str]) -> dict[str, str]:
    result: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.rpartition("=")
        if not (key and equals and value):
            raise OptionError(f"{text!r} is not of the form name=value")
        if key in result:
            raise OptionError(f"{key!r} is given twice")
        result[key] = value
    return result


def dims(texts: Sequence[str]) -> dict[str, int]:
    return {name: count(value) for name, value in pairs(texts).items()}


#: What can be placed in a section of its own, with an example of one.
_NEW_SECTIONS = {
    "weights": ".ext_flash",
    "code": ".itcm",
    "workspace": ".bss.sram",
    "fast": ".bss.dtcm",
}
PLACED = tuple(_NEW_SECTIONS)

_SECTION = re.compile(r"[A-Za-z_.][\w.$]*", re.ASCII)

#: Sections that assemblers, linkers and start code know, and take for what they are used to.
_RESERVED = re.compile(
    r"\.(text|data|rodata|bss|tdata|tbss|got|plt|comment|symtab|strtab|shstrtab"
    r"|(init|fini|preinit)(_array(\..*)?)?|ctors(\..*)?|dtors(\..*)?|(debug|note|ARM|eh_frame|gnu|rel).*)"
)

#: Sections of which compilers know by the first part of the name that they hold something else.
_OTHER = {
    "weights": re.compile(r"\.(s?bss|tbss|noinit|text)(\..*)?"),
    "code": re.compile(r"\.(s?bss|tbss|noinit|rodata)(\..*)?"),
    "workspace": re.compile(r"\.(text|rodata)\..*"),
    "fast": re.compile(r"\.(text|rodata)\..*"),
}


def sections(texts: Sequence[str]) -> dict[str, str]:
    """Names of sections, different ones, by what is placed there."""
    found = pairs(texts)
    for what, name in found.items():
        if what not in PLACED:
            raise OptionError(f"{what!r} cannot be placed", cure=one_of(what, PLACED))
        if not _SECTION.fullmatch(name):
            raise OptionError(
                f"{name!r} is not the name of a section", cure="for example weights=.ext_flash"
            )
        if _RESERVED.fullmatch(name) or _OTHER[what].fullmatch(name):
            raise OptionError(
                f"compilers and linkers keep {name!r} for something else",
                cure=f"give the {what} a section of their own, such as {_NEW_SECTIONS[what]}",
            )
    if len(set(found.values())) != len(found):
        raise OptionError(
            "one section cannot hold different things", cure="give each a section of its own"
        )
    return found


def files_by_name(texts: Sequence[str]) -> dict[str, Path]:
    return {name: Path(value) for name, value in pairs(texts).items()}


def constants(texts: Sequence[str]) -> dict[str, str]:
    """Numbers by commas, or true and false, for each tensor; its type says what they mean."""
    found = pairs(texts)
    for text in found.values():
        for word in text.split(","):
            if word.strip().lower() not in ("true", "false"):
                number(word)
    return found


def dtypes(texts: Sequence[str]) -> dict[str, DType]:
    known = {d.value: d for d in _INPUT_DTYPES}
    given = pairs(texts)
    for value in given.values():
        if value not in known:
            raise OptionError(f"unknown element type {value!r}", cure=one_of(value, known))
    return {name: known[value] for name, value in given.items()}


def renames(texts: Sequence[str]) -> dict[str, str]:
    given = pairs(texts)
    for name in given.values():
        check_tensor_name(name)
    if len(set(given.values())) != len(given):
        raise OptionError("two tensors get the same name")
    return given


def states(texts: Sequence[str]) -> dict[str, str]:
    given = pairs(texts)
    if len(set(given.values())) != len(given):
        raise OptionError("two inputs are the same output")
    return given


def io_layout(text: str) -> str:
    if text not in IO_LAYOUTS:
        raise OptionError(f"unknown layout {text!r}", cure=one_of(text, IO_LAYOUTS))
    return text


def io_type(text: str) -> str:
    if text not in IO_TYPES:
        raise OptionError(f"unknown type {text!r}", cure=one_of(text, IO_TYPES))
    return text


def noise(text: str) -> str:
    if text not in NOISES:
        raise OptionError(f"random numbers do not come from {text!r}", cure=one_of(text, NOISES))
    return text


def weights_as(text: str) -> str:
    if text not in WEIGHT_TYPES:
        raise OptionError(f"unknown type of weights {text!r}", cure=one_of(text, WEIGHT_TYPES))
    return text


def compute_as(text: str) -> str:
    if text not in FLOAT_TYPES:
        raise OptionError(f"nothing computes as {text!r}", cure=one_of(text, FLOAT_TYPES))
    return text


def quantize(text: str) -> DType:
    known = {d.value: d for d in QUANTIZED}
    if text not in known:
        raise OptionError(f"unknown integer type {text!r}", cure=one_of(text, known))
    return known[text]


def isas(texts: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name for text in texts for name in text.split(","))
    if not all(names):
        raise OptionError("the name is empty", cure="cannery list names them")
    return names


def command(text: str) -> str:
    if not any(words([text])[:1]):
        raise OptionError("the command is empty", cure="name a program")
    return text


def command_or_file(text: str) -> str:
    if not text.startswith("@"):
        return command(text)
    try:
        return command(read_file(Path(text[1:])).decode().strip())
    except OSError as error:
        raise OptionError(f"{text[1:]}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OptionError(
            f"{text[1:]}: not text", cure="name a file that holds a command"
        ) from None


def commands(texts: Sequence[str]) -> tuple[str, ...]:
    """Several commands; passing the words of a single one is an easy mistake."""
    for text in texts:
        if text.startswith("-"):
            raise OptionError(
                f"{text!r} is not a command",
                cure="each item is a whole command: 'qemu-x86_64 -cpu max'",
            )
    return tuple(map(command, texts))


def devices(texts: Sequence[str]) -> tuple[str, ...]:
    if not all(texts):
        raise OptionError("the name is empty", cure="such as ssh:nao@10.0.0.5")
    return tuple(texts)


def words(texts: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(word for text in texts for word in shlex.split(text))
    except ValueError as error:
        raise OptionError(f"{error} in {' '.join(texts)!r}") from None
