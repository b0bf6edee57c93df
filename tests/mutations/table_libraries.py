"""Changes of shared libraries, and of weights that are apart."""

from __future__ import annotations

from mutations.change import rows

_SHARED = "tests/emit/test_shared.py"
_LIFE = "tests/emit/test_weights.py::test_weights_come_and_go"
_FUZZ = "tests/emit/test_weights.py::test_no_damaged_file_is_taken"
_FILES = "tests/emit/test_weights.py::test_what_is_no_file_of_weights"
_TRAINED = "tests/emit/test_weights.py::test_zeros_do_not_show_in_the_code"

_loader = rows("runtime/include/cannery/loader.h", _SHARED)
_header = rows("generator/cannery/emit/header.h.j2", _SHARED)
_weights = rows("runtime/include/cannery/weights.h", _FUZZ, _FILES)
_file = rows("generator/cannery/emit/weights_file.c.j2", _LIFE)
_unrolled = rows("generator/cannery/ops/conv/unrolled.py", _TRAINED)
_model = rows("generator/cannery/emit/model.c.j2", _LIFE)

CHANGES = (
    _loader("any interface is taken", "expected->interface_hash) != 0)", "expected->name) == 99)"),
    _loader("any version is taken", "about->version != CANNERY_LIBRARY_VERSION", "0"),
    _loader("instructions are not asked for", "    if (lacking) {", "    if (0 && lacking) {"),
    _header("nothing is exported", '__attribute__((visibility("default")))\n', "\n"),
    _weights("no content is checked", "== sizes[0] ? CANNERY", "|| 1 ? CANNERY"),
    _weights("files may be longer", "|| bytes - CANNERY_WEIGHTS_HEAD != expected", ""),
    _weights("the head is read before there is one", "bytes < CANNERY_WEIGHTS_HEAD || ", ""),
    _file("the new file is closed", "give_back(opened, opened_bytes);\n    }\n    opened = data",
          "give_back(data, bytes);\n    }\n    opened = data"),
    _unrolled("zeros of weights are left out", "ones_like(w) if", "asarray(w) if"),
    _model("networks run without weights", "if (!{{ s.name }}_weights_base) {", "if (0) {"),
)  # fmt: skip
