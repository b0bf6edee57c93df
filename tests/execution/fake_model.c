/* A network that checks how the driver calls it, and a clock that only its runs move.
 *
 * All bytes of input k of sample s are 16 * s + k, those of output k become 100 + 16 * s + k. A run
 * takes RUN_NS and 1 us more for each sample before it, n at once MANY_NS each, in pieces
 * PARALLEL_NS; reading the clock takes CLOCK_NS. WRONG names what of `repeats`, `many` and `pieces`
 * gives other results than a run alone; with `later` each run takes longer than the one before. At the end a line says how often all was called.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cannery/cannery.h"
#include "cannery/parallel.h"

enum { SAMPLES = 3, TENSORS = 2, STEPS = 3, PIECES = 4 };
enum { RUN_NS = 12000, MANY_NS = 5000, PARALLEL_NS = 7000, PARALLEL_MANY_NS = 3000, CLOCK_NS = 100 };

static const size_t input_bytes[TENSORS] = { 8, 12 }, output_bytes[TENSORS] = { 16, 4 };
extern const unsigned char driver_data[];
void fake_lap(int step);

static long long now = 5000000000;
static int calls[SAMPLES], many_calls, parallel_calls, signals, between;

int fake_clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    now += CLOCK_NS;
    t->tv_sec = (time_t)(now / 1000000000);
    t->tv_nsec = (long)(now % 1000000000);
    return 0;
}

int fake_clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
    const long long due = (long long)t->tv_sec * 1000000000 + t->tv_nsec;
    (void)clock, (void)flags, (void)left;
    now = due > now ? due : now;
    return 0;
}

static void require(int right, const char *what)
{
    if (!right) {
        fprintf(stderr, "the driver: %s\n", what);
        exit(4);
    }
}

static int is_wrong(const char *what)
{
    const char *const wrong = getenv("WRONG");
    return wrong && strcmp(wrong, what) == 0;
}

/* The sample that input number `at` of n is, of all tensors. */
static int sample_of(const void *const *inputs, int at)
{
    int sample = -1;
    for (int k = 0; k < TENSORS; ++k) {
        const unsigned char *const x = (const unsigned char *)inputs[k] + (size_t)at * input_bytes[k];
        const int found = (x[0] - k) / 16;
        require(k == 0 || found == sample, "inputs of different samples");
        sample = found;
        for (size_t i = 0; i < input_bytes[k]; ++i) {
            require(x[i] == 16 * sample + k, "no such input");
        }
    }
    return sample;
}

static void give(void *const *outputs, int at, int sample, int change)
{
    for (int k = 0; k < TENSORS; ++k) {
        memset((char *)outputs[k] + (size_t)at * output_bytes[k], 100 + 16 * sample + k, output_bytes[k]);
    }
    if (change) { /* of the last output the last byte */
        ((char *)outputs[TENSORS - 1])[(size_t)(at + 1) * output_bytes[TENSORS - 1] - 1] = 0;
    }
}

/* Inputs that lie one behind the other have their outputs in the same places. */
static void check_places(const void *const *inputs, void *const *outputs)
{
    static const char *first_input, *first_output[TENSORS];
    const char *const x = (const char *)inputs[0];
    const char *const stored = (const char *)driver_data;
    size_t all = 0;
    for (int k = 0; k < TENSORS; ++k) {
        all += input_bytes[k];
    }
    if (x >= stored && x < stored + SAMPLES * all) {
        return;
    }
    first_input = first_input ? first_input : x;
    for (int k = 0; k < TENSORS; ++k) {
        const char *const y = (const char *)outputs[k];
        const size_t place = (size_t)(x - first_input) / input_bytes[0];
        first_output[k] = first_output[k] ? first_output[k] : y;
        require((size_t)(y - first_output[k]) == place * output_bytes[k], "an output is elsewhere");
    }
}

static void run(void *workspace, const void *const *inputs, void *const *outputs)
{
    const int sample = sample_of(inputs, 0);
    require((size_t)workspace % 64 == 0, "the workspace is not aligned");
    check_places(inputs, outputs);
    give(outputs, 0, sample, is_wrong("repeats") && calls[sample] % 2);
    ++calls[sample];
    between += signals == 1;
    now += 1000 * sample + (is_wrong("later") ? calls[sample] / 10 : 0);
    for (int step = 0; step < STEPS; ++step) {
        now += RUN_NS / 6 * (step + 1);
        fake_lap(step);
    }
}

static void run_many(void *workspace, int32_t n, const void *const *inputs, void *const *outputs)
{
    (void)workspace;
    for (int at = 0; at < n; ++at) {
        const int sample = sample_of(inputs, at);
        require(sample == at % SAMPLES, "many samples are not in their order");
        give(outputs, at, sample, sample == SAMPLES - 1 && is_wrong("many"));
    }
    ++many_calls;
    now += (long long)MANY_NS * n;
}

static int done[PIECES];

static void piece(void *data, int32_t index)
{
    (void)data;
    ++done[index];
}

static void run_pieces(const cannery_pool *pool)
{
    const int32_t count = pool->threads < PIECES ? pool->threads : PIECES;
    memset(done, 0, sizeof done);
    pool->run(pool->context, count, piece, 0);
    for (int k = 0; k < count; ++k) {
        require(done[k] == 1, "a piece was not done once");
    }
    ++parallel_calls;
}

static void run_parallel(void *workspace, const cannery_pool *pool, const void *const *inputs,
                         void *const *outputs)
{
    const int sample = sample_of(inputs, 0);
    (void)workspace;
    run_pieces(pool);
    give(outputs, 0, sample, sample == 1 && is_wrong("pieces"));
    now += PARALLEL_NS;
}

static void run_many_parallel(void *workspace, const cannery_pool *pool, int32_t n,
                              const void *const *inputs, void *const *outputs)
{
    run_pieces(pool);
    run_many(workspace, n, inputs, outputs);
    now += (long long)(PARALLEL_MANY_NS - MANY_NS) * n;
}

static const cannery_tensor model_inputs[TENSORS] = {
    { "a", CANNERY_UINT8, 0, 0, 8, 0, 0 }, { "b", CANNERY_UINT8, 0, 0, 12, 0, 0 }
};
static const cannery_tensor model_outputs[TENSORS] = {
    { "c", CANNERY_UINT8, 0, 0, 16, 0, 0 }, { "d", CANNERY_UINT8, 0, 0, 4, 0, 0 }
};

extern const cannery_model fake_model;
extern const cannery_parallel_model fake_parallel_model;
const cannery_model fake_model = {
    1, sizeof fake_model, "fake", "", "", TENSORS, TENSORS, model_inputs, model_outputs, 64, 64, 0,
    run, 0, 0, 128, run_many, 0, 0, 0
};
const cannery_parallel_model fake_parallel_model = {
    sizeof fake_parallel_model, &fake_model, 64, 32, 64, run_parallel, run_many_parallel
};

static void on_signal(int number)
{
    (void)number;
    ++signals;
}

static void tell(void)
{
    printf("{\"calls\": [%d, %d, %d], \"many_calls\": %d, \"parallel_calls\": %d, \"between\": %d, \"signals\": %d}\n",
           calls[0], calls[1], calls[2], many_calls, parallel_calls, between, signals);
}

__attribute__((constructor)) static void begin(void)
{
    signal(SIGUSR1, on_signal);
    atexit(tell);
}
