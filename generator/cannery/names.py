"""Names that end up in generated C: which are valid, and how to make others valid."""

from __future__ import annotations

import re

from cannery.errors import OptionError

_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t char8_t class co_await co_return co_yield compl concept const const_cast consteval
    constexpr constinit continue decltype default delete do double dynamic_cast else enum
    explicit export extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public reflexpr register
    reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast struct switch synchronized template this thread_local throw true try typedef
    typeid typename typeof typeof_unqual union unsigned using virtual void volatile wchar_t
    while xor xor_eq
    """.split()
)

#: Macros of C's headers, and of gcc and clang in gnu modes on today's targets, which turn a name
#: into `1`.
_MACROS = frozenset(
    """
    AVR i386 INFINITY linux mc68000 mips MIPSEB MIPSEL MSP430 NAN NULL powerpc PPC sparc sun unix
    WIN32 WIN64 WINNT
    """.split()
)

#: A model of this name would shadow a header of the C library, or a namespace.
_TAKEN = frozenset(
    """
    assert cannery complex ctype dirent errno fcntl features fenv float glob grp inttypes iso646
    limits locale main malloc math memory netdb new poll pthread pwd regex sched search semaphore
    setjmp
    signal std stdalign stdarg stdatomic stdbool stdckdint stdbit stddef stdint stdio stdlib
    stdnoreturn string strings syslog termios tgmath thread threads time uchar unistd utime values
    version wait wchar wctype
    """.split()
)

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_MAX_LENGTH = 64


def check_tensor_name(name: str) -> str:
    """`name`, if C and C++ accept it as a parameter; OptionError otherwise."""
    if not _IDENTIFIER.fullmatch(name) or "__" in name or len(name) > _MAX_LENGTH:
        raise OptionError(
            f"{name!r} is not a C identifier",
            cure=f"letters, digits and single underscores, a letter first, at most {_MAX_LENGTH}",
        )
    if name in _KEYWORDS:
        raise OptionError(f"{name!r} is a word of C or C++", cure="take another name")
    if name in _MACROS:
        raise OptionError(
            f"{name!r} is a macro of C, or of gcc on some systems", cure="take another name"
        )
    return name


def check_model_name(name: str) -> str:
    """`name`, if it can begin symbols and name files and a C++ namespace; OptionError otherwise."""
    check_tensor_name(name)
    if name.lower() in _TAKEN:
        raise OptionError(
            f"a model cannot be called {name!r}: {name}.h or its namespace exists already",
            cure="take another name",
        )
    return name


def make_identifier(text: str) -> str:
    """A legal model name that resembles `text`: `my-net 2` becomes `my_net_2`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[: _MAX_LENGTH - 4].rstrip("_")
    if not name or name[0].isdigit():
        name = f"net_{name}".rstrip("_")
    if {name, name.lower()} & (_KEYWORDS | _MACROS) or name.lower() in _TAKEN:
        name = f"{name}_net"
    return name
