"""What decides the way of generated C, by snippets."""

from __future__ import annotations

from cannery.analysis.control import Condition, Depends, conditions

TEXT = """
#include "net.h"
#define LIMIT(x) ((x) > 3 ? 1 : 2)
static const int32_t net_L00_places[4] = { 0, 2, 1, 3 };
static const float net_L00_w[2] CANNERY_ALIGN(64) = { 0.5f, 1e-3f };

/* if (comment) */
static void helper(const float *x, float *y, int y0, int y1, int odd, int some)
{
    for (int oh = y0; oh < y1; ++oh) {
        const int top = oh * 2 - 1;
        const int k0 = top < 0 ? -top : 0;
        if (odd) {
            y[oh] = x[k0];
        }
        while (some > 3) {
            some -= 1;
        }
    }
}

static void kernel(const float *x, const uint8_t *q, float *y)
{
    int best = -1, at, found = 0;
    int32_t sums[4];
    const float *end = x + 12;
    helper(x, y, 0, 8, 1 + 2 * 3, (int)x[2]);
    helper(x, y, 8, 9, 0, 3);
    for (int t = 0; t < 4; ++t) {
        const int place = net_L00_places[t];
        if (place > 2) {
            y[place] = x[place] > 0.5f ? x[place] : 0.0f;
        }
        sums[t] = t;
        if (sums[t] == 1) {
            best = t;
        }
        if (best < 0) {
            y[t] = 1e-3f;
        }
    }
    measure(&found, 3);
    if (found) {
        at = q[0];
    }
    for (at = 0; at < 3; ++at) {
        y[at] = *x;
    }
    while (x < end && *x > 0.0f) {
        ++x;
    }
    switch (f32x1_any(x)) {
    }
}

void net_run_many(void *workspace, int32_t n, const float *x)
{
    uint32_t *const counter = (uint32_t *)workspace;
    const uint32_t call = *counter + 1u;
    for (; n > 0; --n) {
        if (call % 2u == 0u) {
            kernel(x, 0, 0);
        }
    }
    const float r = 2.0f * x[1];
    *counter = call == 4u ? 0u : call;
    if (r < 2 * call && LIMIT_OF) {
        return;
    }
}
"""


def found() -> dict[str, Depends]:
    """What each condition of the text depends on, by its function, kind and text."""
    return {f"{c.function}: {c.kind} {c.text}": c.depends for c in conditions(TEXT)}


def test_every_condition_has_its_reason() -> None:
    shapes, data = Depends.SHAPES, Depends.DATA
    assert found() == {
        "helper: for oh < y1": shapes,
        "helper: ? top < 0": shapes,
        "helper: if odd": shapes,
        "helper: while some > 3": data,
        "kernel: for t < 4": shapes,
        "kernel: if place > 2": shapes,
        "kernel: ? x[place] > 0.5f": data,
        "kernel: if sums[t] == 1": data,
        "kernel: if best < 0": data,
        "kernel: if found": data,
        "kernel: for at < 3": data,
        "kernel: while x < end && *x > 0.0f": data,
        "kernel: switch f32x1_any(x)": data,
        "net_run_many: for n > 0": Depends.ARGUMENTS,
        "net_run_many: if call % 2u == 0u": Depends.CALL,
        "net_run_many: ? call == 4u": Depends.CALL,
        "net_run_many: if r < 2 * call && LIMIT_OF": data,
    }


def test_what_is_set_under_a_condition_depends_on_it() -> None:
    """`best` tells something of `sums[t] == 1`, because only then it is set."""
    text = TEXT.replace("sums[t] == 1", "t == 1")
    by_text = {c.text: c for c in conditions(text)}
    assert by_text["best < 0"] == Condition("kernel", "if", "best < 0", Depends.SHAPES)
    text = TEXT.replace("if (sums[t] == 1) {", "if (x[t] > 0) { } else if (t == 1) {")
    by_text = {c.text: c for c in conditions(text)}
    assert by_text["best < 0"].depends is Depends.DATA
