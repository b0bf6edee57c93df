"""Libraries that count the time of their steps, or show the values of their runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from cannery.choose.lookup import autotune_command
from cannery.cli import invoke
from cannery.emit.hooks import Hooks
from cannery.emit.values import seen_values
from cannery.errors import OptionError
from cannery.execution.counted import read_counted
from cannery.execution.dump import read_dump
from cannery.ir.evaluate import evaluate_all
from cannery.options import make_options
from cannery.pipeline import Compiled, compile_model, import_graph
from cannery.resources import ball_example_dir
from cannery.target.targets import TARGETS
from emit.c_programs import LANGUAGES, compile_file, link, run, write_all
from needs import need_toolchain
from tiny_models import write_tiny_dense

COUNTED = """
#include <stdio.h>
#include "ball.h"
#include "cannery/trace_file.h"
%s
static float image[BALL_IMAGE_LEN], scores[BALL_SCORES_LEN];

int main(int argc, char **argv)
{
    cannery_trace_step steps[20];
    const int32_t count = ball_trace_read(steps, 20);
    FILE *const file = fopen(argv[argc - 1], "w");
    if (!file) {
        return 1;
    }
    ball_run(image, scores);
    ball_trace_reset();
    for (int k = 0; k < 7; ++k) {
        ball_run(image, scores);
    }
    if (ball_trace_read(steps, 1) != count || ball_trace_read(steps, 20) != count) {
        return 2;
    }
    printf("%%s %%s", steps[0].name, steps[0].function);
    return cannery_trace_write(file, &ball_model, steps, count, %s) || fclose(file);
}
"""

OWN_CLOCK = """
#ifdef __cplusplus
extern "C"
#endif
uint32_t my_clock(void);
uint32_t my_clock(void)
{
    static uint32_t now = 4294967290u;
    now += 5;
    return now;
}
"""

DUMPED = """
#include <stdio.h>
#include "ball.h"
#include "cannery/dump_file.h"
static float image[BALL_IMAGE_LEN], scores[BALL_SCORES_LEN];

int main(int argc, char **argv)
{
    FILE *const file = fopen(argv[argc - 1], "wb");
    if (!file) {
        return 1;
    }
    cannery_dump_start(file, ball_dump_header());
    ball_run(image, scores);
    for (int run = 0; run < 2; ++run) {
        for (int k = 0; k < BALL_IMAGE_LEN; ++k) {
            image[k] = (float)(k % (7 + run));
        }
        ball_dump(cannery_dump_write, file);
        ball_run(image, scores);
        ball_dump(0, 0);
    }
    ball_run(image, scores);
    return fclose(file);
}
"""

FORMS: list[dict[str, object]] = [
    {}, {"split": "3", "parallel": True, "many": "4"}, {"isa": ["generic", "sse2"]},
]  # fmt: skip


def compiled(**given: object) -> Compiled:
    """The ball example with some options, for plain C."""
    return compile_model(make_options(ball_example_dir() / "ball.h5", {"isa": "generic", **given}))


def program(
    folder: Path, code: Compiled, main: str, language: str = "c99 gcc", flags: tuple[str, ...] = ()
) -> Path:
    """The program of some C around a library."""
    write_all(folder, {**code.files, "main.c": main})
    units = [name for name in code.files if name.endswith(".c")]
    objects = [
        compile_file(folder, unit, language, (*flags, *(["-msse2"] if "_sse2" in unit else [])))
        for unit in (*units, "main.c")
    ]
    return link(folder, objects)


def output_of(program: Path, path: Path) -> str:
    """What the program prints; its argument is a file to write."""
    done = subprocess.run([program, path], capture_output=True, check=True, text=True)
    return done.stdout


def test_nothing_is_there_where_nothing_was_asked_for() -> None:
    code = compiled(parallel=True, many="4", split="2")
    assert not Hooks(code.source).begin and not Hooks(code.source).after(0)
    text = b"".join(code.files.values()).decode(errors="replace")
    assert not re.search(r"trace_|dump|clock", text)


@pytest.mark.parametrize("language", LANGUAGES)
def test_steps_are_counted(
    tmp_path: Path, language: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = compiled(trace_steps=True)
    built = program(tmp_path, code, COUNTED % ("", "1000000000u"), language)
    printed = output_of(built, tmp_path / "trace.json")
    assert printed == f"conv_1 {code.source.calls[0].symbol}"
    found = read_counted(tmp_path / "trace.json", code.source)
    assert found.runs == 7 and len(found.us) == len(code.source.calls)
    words = ["bench", str(ball_example_dir() / "ball.h5"), "--isa", "generic"]
    assert invoke([*words, "--from", str(tmp_path / "trace.json")]) == 0
    assert "\n7 runs counted by the library" in capsys.readouterr().out
    assert all(0 < us < 1e6 for us in found.us)


def test_of_several_instruction_sets_the_one_that_ran_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need_toolchain("sse2")
    code = compiled(trace_steps=True, isa=["generic", "sse2"])
    path = tmp_path / "trace.json"
    printed = output_of(program(tmp_path, code, COUNTED % ("", "1000000000u")), path)
    words = ["bench", str(ball_example_dir() / "ball.h5"), "--from", str(path)]
    assert invoke([*words, "--isa", "generic", "--isa", "sse2"]) == 0
    (ran,) = re.findall(r"^conv_1 ball_(\w+)_L00", printed)
    assert f"by the library ({ran})" in capsys.readouterr().out
    assert invoke([*words, "--isa", "generic"]) == 2
    assert "counted by other code" in capsys.readouterr().err


def test_a_clock_of_the_user_may_wrap(tmp_path: Path) -> None:
    code = compiled(trace_steps=True)
    flags = ("-DCANNERY_TRACE_CLOCK=my_clock",)
    built = program(tmp_path, code, COUNTED % (OWN_CLOCK, "1000000u"), flags=flags)
    output_of(built, tmp_path / "trace.json")
    found = read_counted(tmp_path / "trace.json", code.source)
    assert found.runs == 7 and set(found.us) == {5.0}


THREADS = """
#include <pthread.h>
#include <stdio.h>
#include "dense.h"
#include "cannery/pthread_pool.h"
enum { RUNS = 50, N = 11 };
static float images[N * DENSE_IMAGE_LEN], scores[3][N * DENSE_SCORES_LEN];
enum { BYTES = DENSE_MANY_PARALLEL_WORKSPACE_BYTES(3) + 4096 };
static unsigned char memory[3][BYTES] __attribute__((aligned(64)));

static void *several(void *number)
{
    const int k = *(const int *)number;
    for (int r = 0; r < RUNS; ++r) {
        dense_run_in(memory[k], images, scores[k]);
    }
    return NULL;
}

int main(void)
{
    int numbers[3] = { 0, 1, 2 };
    pthread_t threads[3];
    cannery_pthread_pool pool;
    cannery_pool three;
    cannery_trace_step step[9];
    dense_trace_reset();
    for (int k = 0; k < 3; ++k) {
        pthread_create(&threads[k], NULL, several, &numbers[k]);
    }
    for (int k = 0; k < 3; ++k) {
        pthread_join(threads[k], NULL);
    }
    const int count = dense_trace_read(step, 9);
    printf("%d %d ", count, (int)step[count - 1].calls);
    dense_run_many(memory[0], N, images, scores[0]);
    dense_trace_read(step, 9);
    printf("%d ", (int)step[count - 1].calls);
    if (cannery_pthread_pool_start(&pool, 3, &three)) {
        return 1;
    }
    dense_trace_reset();
    dense_run_parallel(memory[1], &three, images, scores[1]);
    dense_run_many_parallel(memory[2], &three, N, images, scores[2]);
    cannery_pthread_pool_stop(&pool);
    dense_trace_read(step, 9);
    printf("%d", (int)step[count - 1].calls);
    return 0;
}
"""


def test_runs_of_several_threads_are_all_counted(tmp_path: Path) -> None:
    model = write_tiny_dense(tmp_path / "dense.h5")
    given = {"isa": "sse2", "many": "8", "parallel": True, "trace_steps": True}
    code = compile_model(make_options(model, given))
    assert code.source.many.chunks and need_toolchain("sse2")
    write_all(tmp_path, {**code.files, "main.c": THREADS})
    units = [*(name for name in code.files if name.endswith(".c")), "main.c"]
    objects = [compile_file(tmp_path, unit, "c11 gcc", ["-msse2", "-pthread"]) for unit in units]
    steps = len(code.source.calls)
    assert run(link(tmp_path, objects)).decode() == f"{steps} 150 {150 + 11} {1 + 11}"


@pytest.mark.parametrize("given", FORMS[1:])
def test_each_way_to_run_is_counted(given: dict[str, object]) -> None:
    code = compiled(trace_steps=True, **given)
    names = [n for n in code.files if re.fullmatch(r"ball(_generic|_sse2)?\.c", n)]
    texts = [code.files[name].decode() for name in names]
    steps = [len(re.findall(r"cannery_last = ball\w*_count\(", text)) for text in texts]
    runs = [len(re.findall(r"cannery_trace_time cannery_last", text)) for text in texts]
    assert len(code.source.calls) * sum(runs) == sum(steps) > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"calls": 7', '"calls": "x"'), "not a trace of steps"),
        (('"cannery_trace": 1', '"cannery_trace": 2'), "that is known"),
        (('"hash": "', '"hash": "0'), "counted by other code"),
        (("ball_L01", "ball_L02"), "counted by other code"),
        (('"calls": 7', '"calls": 0'), "no run was counted"),
        (('"ticks": ', '"ticks": -'), "no run was counted"),
    ],
)
def test_damaged_counts_are_errors(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    source = compiled(trace_steps=True).source
    steps = ", ".join(
        f'{{"function": "{call.symbol}", "calls": 7, "ticks": 3}}' for call in source.calls
    )
    text = (
        f'{{"cannery_trace": 1, "hash": "{source.hash}", "ticks_per_second": 1000, '
        f'"steps": [{steps}]}}'
    )
    path = tmp_path / "trace.json"
    path.write_text(text)
    assert read_counted(path, source).us[0] == pytest.approx(3e3 / 7)
    path.write_text(text.replace(*change))
    with pytest.raises(OptionError, match=message):
        read_counted(path, source)
    with pytest.raises(OptionError, match="No such file"):
        read_counted(tmp_path / "none.json", source)


@pytest.mark.parametrize("given", FORMS)
def test_a_dump_holds_all_values_of_all_runs(tmp_path: Path, given: dict[str, object]) -> None:
    code = compiled(dump_values=True, **given)
    path = tmp_path / "run.dump"
    assert output_of(program(tmp_path, code, DUMPED), path) == ""
    dump = read_dump(path)
    graph = import_graph(make_options(ball_example_dir() / "ball.h5", {}))
    assert (dump.hash, len(dump.runs)) == (code.source.hash, 2)
    names = {value.value for value in dump.values}
    assert {"image", "pool_1", "conv_3", "scores"} <= names
    for number, values in enumerate(dump.runs):
        image = np.float32(np.arange(256) % (7 + number)).reshape(1, 16, 16, 1)
        expected = evaluate_all(graph, {"image": image})
        for k, shown in enumerate(dump.values):
            np.testing.assert_allclose(values[k], expected[shown.value], rtol=1e-3, atol=1e-4)


def test_a_library_that_tells_more_is_tuned_as_one_that_does_not() -> None:
    model, target = ball_example_dir() / "ball.h5", TARGETS["generic"]
    told = {"trace_steps": True, "dump_values": True, "metadata": True, "compiled_nn": True}
    plain, more = (make_options(model, {"isa": "generic", **given}) for given in ({}, told))
    assert autotune_command(more, target) == autotune_command(plain, target)


def test_values_are_numbered_as_they_are_computed() -> None:
    seen = seen_values(compiled(dump_values=True).source)
    assert [value.step for value in seen] == sorted(value.step for value in seen)
    assert seen[0].value == "image" and seen[-1].value == "scores"


@pytest.fixture(scope="module")
def dump_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a sound dump."""
    folder = tmp_path_factory.mktemp("dump")
    output_of(program(folder, compiled(dump_values=True), DUMPED), folder / "run.dump")
    return (folder / "run.dump").read_bytes()


def test_dumps_that_end_too_early_are_errors(tmp_path: Path, dump_bytes: bytes) -> None:
    """They say where: within a value, before it, or between two of them."""
    path = tmp_path / "run.dump"
    body = dump_bytes.index(b"\n\n") + 2
    first = body + 24 + 1024  # the start of a run, and the image with its head
    for end, words in (
        *((end, "no values of a run") for end in (0, 5, 40, body - 1, body)),
        (body + 3, "it ends within the head of a value"),
        (body + 30, "it ends within 'image'"),
        (first, "it ends within a run, after 1 of "),
        (first + 5, "it ends within the head of a value"),
        (len(dump_bytes) - 1, "it ends within 'scores'"),
    ):
        path.write_bytes(dump_bytes[:end])
        with pytest.raises(OptionError, match="not a valid dump") as caught:
            read_dump(path)
        assert words in str(caught.value) and "copy all of it" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        (b"CANNERY", b"CANNARY"), (b'"hash"', b'"mesh"'), (b'"nhwc"', b'"none"'),
        (b'"origin":0', b'"origin":9'), (b'"row":', b'"row":9'), (b'"shape":[1,', b'"shape":[9,'),
        (b'"elements":', b'"elements":9'), (b'"dtype":"float32"', b'"dtype":"float99"'),
        (b'"top"', b'"tip"'), (b'"col":', b'"col":-'), (b'"size":1024', b'"size":1025'),
    ],
)  # fmt: skip
def test_damaged_dumps_are_errors(
    tmp_path: Path, dump_bytes: bytes, change: tuple[bytes, bytes]
) -> None:
    assert change[0] in dump_bytes
    path = tmp_path / "run.dump"
    path.write_bytes(dump_bytes.replace(*change))
    with pytest.raises(OptionError, match="not a valid dump"):
        read_dump(path)
