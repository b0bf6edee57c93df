/* Runs generated networks call by call and compares with stored outputs: a JSON line for each.
 *
 * Calls have several sizes. Two sequences run by turns, the second some calls later, each with a state of its own; now and
 * then a state moves to other memory. Both have to give the same bits, and a sequence after another
 * reset as well. Outputs that are stored as NaN are those that nobody may use.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cannery/cannery.h"

enum { MAX_TENSORS = 64, GUARD = 64, VOICES = 2 };

/* Calls of one size: the bytes of their inputs and outputs, without the state. */
typedef struct call_size {
    void (*step)(void *workspace, void *state, const void *const *inputs, void *const *outputs);
    size_t inputs[MAX_TENSORS], outputs[MAX_TENSORS];
} call_size;

typedef struct stream {
    const cannery_model *model;
    const call_size *sizes;
    const unsigned char *cuts; /* the size of each call */
    int calls;
    size_t input, output; /* offsets of the stored tensors: those of the first call, of the second ... */
} stream;

extern const unsigned char net_data[];
extern const stream streams[];
extern const int stream_count;

/* Memory with known bytes around it, `shift` bytes beyond a multiple of 64. */
typedef struct memory {
    unsigned char *base, *at;
    size_t bytes;
} memory;

static memory take(size_t bytes, size_t shift)
{
    memory m;
    m.bytes = bytes;
    m.base = (unsigned char *)malloc(bytes + 3 * GUARD + shift);
    if (m.base == NULL) {
        printf("{\"fault\": \"out of memory\"}\n");
        exit(1);
    }
    m.at = m.base + GUARD + (GUARD - (size_t)m.base % GUARD) % GUARD + shift;
    memset(m.at - GUARD, 0xa5, bytes + 2 * GUARD);
    return m;
}

/* Whether nothing was written beside it. */
static int give_back(memory m)
{
    int clean = 1;
    for (size_t i = 0; i < GUARD; ++i) {
        clean &= m.at[i - GUARD] == 0xa5 && m.at[m.bytes + i] == 0xa5;
    }
    free(m.base);
    return clean;
}

/* A sequence: its state, and the outputs of all of its calls, one output after the other. */
typedef struct voice {
    memory state, outputs;
} voice;

static size_t sum(const size_t *bytes)
{
    size_t all = 0;
    for (int k = 0; k < MAX_TENSORS; ++k) {
        all += bytes[k];
    }
    return all;
}

/* Bytes of the outputs of the calls before a call. */
static size_t outputs_before(const stream *s, int number)
{
    size_t all = 0;
    for (int c = 0; c < number; ++c) {
        all += sum(s->sizes[s->cuts[c]].outputs);
    }
    return all;
}

static size_t inputs_before(const stream *s, int number)
{
    size_t all = 0;
    for (int c = 0; c < number; ++c) {
        all += sum(s->sizes[s->cuts[c]].inputs);
    }
    return all;
}

/* One call. What the workspace holds is not relied on, except where the caller zeroed it. */
static void call(const stream *s, voice *v, unsigned char *workspace, int number)
{
    const call_size *const size = &s->sizes[s->cuts[number]];
    const void *inputs[MAX_TENSORS];
    void *outputs[MAX_TENSORS];
    const unsigned char *x = net_data + s->input + inputs_before(s, number);
    unsigned char *y = v->outputs.at + outputs_before(s, number);
    for (int k = 0; k < MAX_TENSORS; ++k) {
        inputs[k] = x;
        outputs[k] = y;
        x += size->inputs[k];
        y += size->outputs[k];
    }
    size->step(workspace, v->state.at, inputs, outputs);
}

/* The state in other memory, aligned otherwise; the old one becomes useless. Whether it was whole. */
static int move(voice *v, size_t shift)
{
    const memory other = take(v->state.bytes, shift);
    memcpy(other.at, v->state.at, v->state.bytes);
    memset(v->state.at, 0xff, v->state.bytes);
    const int clean = give_back(v->state);
    v->state = other;
    return clean;
}

/* max|y - r| / max|r|, of the output that has the most of it. */
static double error(const stream *s, const unsigned char *found)
{
    const unsigned char *const right = net_data + s->output;
    double largest[MAX_TENSORS] = { 0.0 }, worst[MAX_TENSORS] = { 0.0 }, result = 0.0;
    size_t at = 0;
    for (int c = 0; c < s->calls; ++c) {
        for (int k = 0; k < MAX_TENSORS; ++k) {
            const size_t end = at + s->sizes[s->cuts[c]].outputs[k];
            for (; at < end; at += sizeof(float)) {
                float a, b;
                memcpy(&a, found + at, sizeof a);
                memcpy(&b, right + at, sizeof b);
                if (b == b) {
                    const double difference = fabs((double)a - (double)b);
                    largest[k] = fabs((double)b) > largest[k] ? fabs((double)b) : largest[k];
                    worst[k] = difference <= worst[k] ? worst[k] : difference;
                }
            }
        }
    }
    for (int k = 0; k < MAX_TENSORS; ++k) {
        const double e = worst[k] / (largest[k] > 0.0 ? largest[k] : 1.0);
        result = e <= result ? result : e;
    }
    return result <= 1e30 ? result : 1e30;
}

static void run(const stream *s, int number)
{
    const cannery_model *const m = s->model;
    const size_t bytes = outputs_before(s, s->calls);
    const memory workspace = take(m->workspace_bytes, 0);
    unsigned random = 12345u + (unsigned)number;
    const int lag = 1 + number % 3;
    const char *fault = "";
    voice voices[VOICES];
    memset(workspace.at, 0, m->workspace_bytes);
    for (int k = 0; k < VOICES; ++k) {
        voices[k].state = take(m->state_bytes, k ? 8 : 0);
        voices[k].outputs = take(bytes, 4);
        m->reset(voices[k].state.at);
    }
    for (int c = 0; c < s->calls + lag; ++c) {
        for (int k = 0; k < VOICES; ++k) {
            const int at = c - k * lag;
            if (at >= 0 && at < s->calls) {
                call(s, &voices[k], workspace.at, at);
            }
            random = random * 1103515245u + 12345u;
            if (random >> 30 == 0 && !move(&voices[k], 8 * (random >> 16 & 7u))) {
                fault = "bytes beside a state were written";
            }
        }
    }
    const double worst = error(s, voices[0].outputs.at);
    if (memcmp(voices[0].outputs.at, voices[1].outputs.at, bytes) != 0) {
        fault = "two sequences by turns differ";
    }
    m->reset(voices[1].state.at);
    for (int c = 0; c < s->calls; ++c) {
        call(s, &voices[1], workspace.at, c);
    }
    if (memcmp(voices[0].outputs.at, voices[1].outputs.at, bytes) != 0) {
        fault = "a sequence after a reset differs";
    }
    for (int k = 0; k < VOICES; ++k) {
        if (!give_back(voices[k].state) || !give_back(voices[k].outputs)) {
            fault = "bytes beside a state or an output were written";
        }
    }
    if (!give_back(workspace)) {
        fault = "bytes beside the workspace were written";
    }
    printf("{\"net\": %d, \"error\": %.9g, \"fault\": \"%s\"}\n", number, worst, fault);
}

int main(void)
{
    for (int k = 0; k < stream_count; ++k) {
        run(&streams[k], k);
    }
    return 0;
}
