"""A compiler launcher for one file: writes down the compiler's command, then lists its macros.

    capture_compiler.py compiler flags... -o OBJECT -c SOURCE

OBJECT becomes the listing of `-dM -E`, so that the generator knows what the flags really in use
allow; OBJECT.command the command without the file's own arguments, as one line of shell words, so
that tuning can compile with it. Must run on any Python 3.
"""

import os
import shlex
import subprocess
import sys

#: Arguments of the one file, by the number of words that follow.
OWN = {"-c": 1, "-o": 1, "-MF": 1, "-MT": 1, "-MQ": 1, "-MD": 0, "-MMD": 0, "-MP": 0, "-x": 1}


def without_file(command):
    """The command without source, object, dependency file, language and standard."""
    words, skip = [], 0
    for word in command:
        if skip:
            skip -= 1
        elif word in OWN:
            skip = OWN[word]
        elif not word.startswith("-std="):
            words.append(word)
    return words


def main():
    command = sys.argv[1:]
    place = command.index("-o") + 1
    listing = command[place]
    text = " ".join(map(shlex.quote, without_file(command))) + "\n"
    with open(listing + ".command.tmp", "w") as stream:
        stream.write(text)
    os.replace(listing + ".command.tmp", listing + ".command")
    # A listing that is cut off, as the compiler was killed, would prove less than the flags allow.
    command[place] = listing + ".tmp"
    code = subprocess.call(command + ["-dM", "-E"])
    if code == 0:
        os.replace(listing + ".tmp", listing)
    sys.exit(code)


main()
