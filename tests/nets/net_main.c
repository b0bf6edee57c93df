/* Runs generated networks on stored inputs and compares with stored outputs: a JSON line for each.
 *
 * Every network runs twice, with all bytes of its workspace that it must not rely on set to NaN in
 * between, and with unaligned inputs and outputs; both runs have to give the same bits.
 * Then several inputs run at once, each with its elements moved on, and have to give the bits that
 * they give alone.
 * A network that runs step by step, whose inputs say how its state begins, takes STEPS steps from a
 * reset, and has to give the bits of runs that take their state from the run before.
 * With NET_EXACT all memory is exactly as large as it must be, for a sanitizer to watch;
 * NET_MISSING bytes less are a trial whether it does.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cannery/cannery.h"

typedef struct range {
    size_t at, bytes;
} range;

typedef struct net {
    const cannery_model *model;
    int (*selftest)(void *workspace);
    const range *kept; /* parts of the workspace that keep their bytes, ended by bytes == 0 */
    size_t input, output; /* offsets of the stored tensors */
    int begins; /* whether the last inputs are the state after a reset */
} net;

extern const unsigned char net_data[];
extern const net nets[];
extern const int net_count;

#ifndef NET_MISSING
#define NET_MISSING 0
#endif

#ifdef NET_EXACT
enum { MAX_TENSORS = 32, SHIFT = 0, GUARD = 0 };
#else
enum { MAX_TENSORS = 32, SHIFT = 4, GUARD = 64 };
#endif

static unsigned char *take(size_t bytes)
{
    unsigned char *const p = (unsigned char *)malloc(bytes + 2 * GUARD);
    if (p == NULL) {
        printf("{\"fault\": \"out of memory\"}\n");
        exit(1);
    }
    memset(p, 0xa5, bytes + 2 * GUARD);
    return p;
}

static unsigned char *take_workspace(size_t bytes)
{
#ifdef NET_EXACT
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes) != 0) {
        exit(1);
    }
    return (unsigned char *)memset(p, 0, bytes);
#else
    return (unsigned char *)calloc(1, bytes + 128);
#endif
}

static void poison(unsigned char *workspace, size_t bytes, const range *kept)
{
    for (size_t i = 0; i < bytes; ++i) {
        int keep = 0;
        for (const range *r = kept; r->bytes; ++r) {
            keep |= i >= r->at && i < r->at + r->bytes;
        }
        if (!keep) {
            workspace[i] = 0xff;
        }
    }
}

static double error(const cannery_tensor *t, const unsigned char *y, const unsigned char *expected)
{
    double largest = 0.0, worst = 0.0;
    for (size_t i = 0; i < t->bytes / sizeof(float); ++i) {
        float a, b;
        memcpy(&a, y + i * sizeof(float), sizeof a);
        memcpy(&b, expected + i * sizeof(float), sizeof b);
        largest = fabs((double)b) > largest ? fabs((double)b) : largest;
        const double difference = fabs((double)a - (double)b);
        worst = difference <= worst ? worst : difference;
    }
    return worst / (largest > 0.0 ? largest : 1.0);
}

/* Whether a run of COUNT tensors at once differs from single ones; the first is `inputs`. */
static int differs_at_once(const net *n, unsigned char *workspace, const void *const *inputs)
{
    enum { COUNT = 6 };
    const cannery_model *const m = n->model;
    void *many_inputs[MAX_TENSORS], *many_outputs[MAX_TENSORS], *outputs[MAX_TENSORS];
    int differs = 0;
    for (int k = 0; k < m->input_count; ++k) {
        const size_t bytes = m->inputs[k].bytes;
        unsigned char *const copy = take(COUNT * bytes) + GUARD + SHIFT;
        for (size_t i = 0; i < COUNT; ++i) {
            const size_t moved = bytes ? 16 * i % bytes : 0;
            memcpy(copy + i * bytes, (const char *)inputs[k] + moved, bytes - moved);
            memcpy(copy + (i + 1) * bytes - moved, inputs[k], moved);
        }
        many_inputs[k] = copy;
    }
    for (int k = 0; k < m->output_count; ++k) {
        many_outputs[k] = take(COUNT * m->outputs[k].bytes) + GUARD + SHIFT;
        outputs[k] = take(m->outputs[k].bytes) + GUARD + SHIFT;
    }
    poison(workspace, m->many_workspace_bytes, n->kept);
    m->run_many(workspace, COUNT, (const void *const *)many_inputs, many_outputs);
    poison(workspace, m->many_workspace_bytes, n->kept);
    for (size_t i = 0; i < COUNT; ++i) {
        const void *one[MAX_TENSORS];
        for (int k = 0; k < m->input_count; ++k) {
            one[k] = (const char *)many_inputs[k] + i * m->inputs[k].bytes;
        }
        m->run(workspace, one, outputs);
        for (int k = 0; k < m->output_count; ++k) {
            const size_t bytes = m->outputs[k].bytes;
            differs |= memcmp(outputs[k], (const char *)many_outputs[k] + i * bytes, bytes) != 0;
        }
    }
    m->run_many(workspace, 0, (const void *const *)many_inputs, many_outputs);
    m->run_many(workspace, -1, (const void *const *)many_inputs, many_outputs);
    return differs;
}

/* Whether steps differ from runs that pass the state on; the other inputs change from step to step. */
static int differs_by_steps(const net *n, unsigned char *workspace, const void *const *inputs)
{
    enum { STEPS = 40 };
    const cannery_model *const m = n->model;
    const int taken = m->input_count - m->state_count, made = m->output_count - m->state_count;
    const void *given[MAX_TENSORS];
    void *outputs[MAX_TENSORS], *stepped[MAX_TENSORS];
    unsigned char *moved[MAX_TENSORS];
    unsigned char *const state = take_workspace(m->state_bytes);
    int differs = 0;
    for (int k = 0; k < m->input_count; ++k) {
        moved[k] = take(m->inputs[k].bytes) + GUARD + SHIFT;
        memcpy(moved[k], inputs[k], m->inputs[k].bytes);
        given[k] = moved[k];
    }
    for (int k = 0; k < m->output_count; ++k) {
        outputs[k] = take(m->outputs[k].bytes) + GUARD + SHIFT;
        stepped[k] = take(m->outputs[k].bytes) + GUARD + SHIFT;
    }
    m->reset(state);
    for (size_t step = 0; step < STEPS; ++step) {
        for (int k = 0; k < taken; ++k) {
            const size_t bytes = m->inputs[k].bytes, at = bytes ? 4 * (7 * step % (bytes / 4)) : 0;
            memcpy(moved[k], (const char *)inputs[k] + at, bytes - at);
            memcpy(moved[k] + bytes - at, inputs[k], at);
        }
        poison(workspace, m->workspace_bytes, n->kept);
        m->run(workspace, given, outputs);
        poison(workspace, m->workspace_bytes, n->kept);
        m->step(workspace, state, given, stepped);
        for (int k = 0; k < made; ++k) {
            differs |= memcmp(outputs[k], stepped[k], m->outputs[k].bytes) != 0;
        }
        for (int k = 0; k < m->state_count; ++k) {
            memcpy(moved[taken + k], outputs[made + k], m->outputs[made + k].bytes);
        }
    }
    free(state);
    return differs;
}

static void run(const net *n, int number)
{
    const cannery_model *const m = n->model;
    const void *inputs[MAX_TENSORS];
    void *outputs[MAX_TENSORS];
    unsigned char *first[MAX_TENSORS];
    unsigned char *const memory = take_workspace(m->many_workspace_bytes);
    unsigned char *const workspace = memory + (64 - (size_t)memory % 64) % 64;
    const char *fault = "";
    size_t at = n->input;
    for (int k = 0; k < m->input_count; ++k) {
        unsigned char *const copy = take(m->inputs[k].bytes - NET_MISSING) + GUARD + SHIFT;
        memcpy(copy, net_data + at, m->inputs[k].bytes - NET_MISSING);
        inputs[k] = copy;
        at += m->inputs[k].bytes;
    }
    for (int k = 0; k < m->output_count; ++k) {
        outputs[k] = take(m->outputs[k].bytes) + GUARD + SHIFT;
        first[k] = take(m->outputs[k].bytes);
    }
    m->run(workspace, inputs, outputs);
    for (int k = 0; k < m->output_count; ++k) {
        memcpy(first[k], outputs[k], m->outputs[k].bytes);
        memset(outputs[k], 0xa5, m->outputs[k].bytes);
    }
    poison(workspace, m->workspace_bytes, n->kept);
    m->run(workspace, inputs, outputs);
    double worst = 0.0;
    at = n->output;
    for (int k = 0; k < m->output_count; ++k) {
        const unsigned char *const y = (const unsigned char *)outputs[k];
        const double e = error(&m->outputs[k], y, net_data + at);
        worst = e <= worst ? worst : e;
        at += m->outputs[k].bytes;
        if (memcmp(first[k], y, m->outputs[k].bytes) != 0) {
            fault = "the second run differs";
        }
        for (size_t i = 0; i < GUARD - SHIFT; ++i) {
            if (y[m->outputs[k].bytes + i] != 0xa5 || y[-1 - (int)(i % GUARD)] != 0xa5) {
                fault = "bytes beside an output were written";
            }
        }
    }
    if (differs_at_once(n, workspace, inputs)) {
        fault = "a run of many differs";
    }
    if (n->begins && m->state_count > 0 && differs_by_steps(n, workspace, inputs)) {
        fault = "steps differ from runs";
    }
    memset(workspace, 0, m->workspace_bytes);
    if (n->selftest(workspace) != 0) {
        fault = "the self-test fails";
    }
    if (!(worst <= 1e30)) {
        worst = 1e30;
    }
    printf("{\"net\": %d, \"error\": %.9g, \"fault\": \"%s\"}\n", number, worst, fault);
    free(memory);
}

int main(void)
{
    for (int k = 0; k < net_count; ++k) {
        run(&nets[k], k);
    }
    return 0;
}
