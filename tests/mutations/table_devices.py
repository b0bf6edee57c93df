"""Changes of devices: names, connections, programs that are sent, clocks, shared tunings."""

from __future__ import annotations

from mutations.change import Change, rows

_C = "generator/cannery"

_REMOTE = "tests/target/test_remote.py"

_names = rows(f"{_C}/devices.py", "tests/test_device_names.py")
_remote = rows(f"{_C}/target/remote.py", _REMOTE)
_link = rows(f"{_C}/target/link.py", _REMOTE)
_reach = rows(f"{_C}/target/reach.py", _REMOTE)
_vitals = rows(f"{_C}/target/vitals.py", "tests/target/test_vitals.py")
_alike = rows(
    f"{_C}/tuning/alike.py",
    "tests/tuning/test_devices.py::test_times_of_devices_are_made_comparable",
)

CHANGES: tuple[Change, ...] = (
    _names("a file of anybody says what is run", "and path != own:", "and path == own:"),
    _names("options of ssh as hosts", r"ssh:(?P<login>(?:[\w.]", r"ssh:(?P<login>(?:[-\w.]"),
    _names("a device given twice", "if place in found[:number]:", "if False:"),
    _remote("programs are sent each time", "if name in self._sent and", "if False and"),
    _remote("what is gone here stays there", "if not path.exists()]", "if path.exists()]"),
    _remote("programs outlive their session", "(cat <&3; kill -9 $p)", "(cat <&3; true)"),
    _remote("a lost connection stays lost", "for pause in (0.0, *PAUSES):", "for pause in (0.0,):"),
    _remote("any failed session is a lost connection", "if link.is_lost(done.returncode):",
            "if done.returncode == 255:"),
    _remote("slow measurements count", "if again:", "if not again:"),
    _link("the folder stays", '\'"$d"/*) kill -9 ${{p##*/}};; esac; done; rm -rf "$d"\'',
         '\'"$d"/*) kill -9 ${{p##*/}};; esac; done\''),
    _link("a broken pipe ends the shell", "trap : HUP INT PIPE TERM", "trap : HUP INT TERM"),
    _link("greetings without an end", "and len(found) < _MAX_GREETING", "and len(found) < 2**40"),
    _reach("any machine will do", "machine not in machines):", "False):"),
    _reach("any instructions will do", "if not missing:", "if True:"),
    _vitals("clocks that fall are nothing", "if 0 < after.most_khz < before", "if 0 < before"),
    _vitals("critical temperatures", 'kind in ("passive", "hot")', 'kind in ("critical",)'),
    _alike("scales upside down", "times[0] / us if us", "us / times[0] if us"),
)  # fmt: skip
