/* Runs one generated network on stored inputs, or times it; prints one JSON object per line.
 *
 *   driver --run              each sample twice, then all at once; the bytes of every output, in
 *                             hexadecimal, and whether they were the same each time
 *   driver --repeat N [K]     sample K (else the first) N times, silently: for counting instructions
 *   driver --step N           the same between two signals, SIGUSR1, after one run
 *   driver --time SECONDS     microseconds of one run: quartiles and 99th percentile, and the median
 *                             of each tenth of the runs
 *   driver --steps SECONDS    with DRIVER_STEPS: microseconds of each step within the runs: lower
 *                             quartiles, of all and of each tenth of the runs
 *   driver --trace N          with DRIVER_STEPS: microseconds of each step in each of N runs
 *   driver --many SECONDS N   microseconds of N runs, one by one and at once: lower quartiles
 *   driver --threads SECONDS T N   with DRIVER_PARALLEL: microseconds of one run and of N runs at
 *                             once, on one thread and on T: lower quartiles
 *   driver --rate HZ N        N runs at a fixed rate: microseconds of each, since it was due and
 *                             alone; none starts after twice the time that they should take
 *   driver --dump             with DRIVER_DUMP: the bytes of every value of a run of each sample
 *   driver --bandwidth        bytes per nanosecond that one core reads from memory of several sizes
 *   driver --stack BYTES      the bytes of stack that each function takes: of this many below the caller
 *                             the lowest that it writes
 *   driver --device           only what every run prints first: the machine it runs on
 *
 * With --cold after that, caches are emptied before each run (each N); that is not timed.
 *
 * DRIVER_MODEL is the network, DRIVER_PARALLEL the same for several threads, if it has that (then
 * --run compares that too). With DRIVER_PTHREADS there are threads; with DRIVER_STEPS the network
 * calls DRIVER_LAP after each of that many steps. DRIVER_WEIGHTS sets the weights of a network that
 * has none in its code. With DRIVER_STEPPED what is timed are steps of a network that keeps its past
 * in place, from a reset on: so many calls together. DRIVER_SAMPLES is the number of samples in
 * driver_data: one after the other, each with all inputs in the model's order.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cannery/cannery.h"
#include "device.h"
#ifdef DRIVER_PARALLEL
#include "cannery/parallel.h"
#endif
#ifdef DRIVER_DUMP
#include "cannery/dump.h"
#endif
#ifdef DRIVER_PTHREADS
#include "cannery/pthread_pool.h"
#endif

#ifdef __cplusplus
extern "C" {
#endif
extern const cannery_model DRIVER_MODEL;
#ifdef DRIVER_PARALLEL
extern const cannery_parallel_model DRIVER_PARALLEL;
#endif
extern const unsigned char driver_data[];
#ifdef DRIVER_STEPS
void DRIVER_LAP(int step);
#endif
#ifdef DRIVER_DUMP
void DRIVER_DUMP(cannery_dump *show, void *context);
#endif
#ifdef __cplusplus
}
#endif

__asm__(
    ".section .rodata.driver_data,\"a\"\n"
    ".balign 64\n"
    ".globl driver_data\n"
    "driver_data:\n"
    ".incbin \"driver_data.bin\"\n"
    ".previous\n");

#ifdef DRIVER_WEIGHTS
/* The weights of a network that has none in its code. */
#ifdef __cplusplus
extern "C" const unsigned char driver_weights[], driver_weights_end[];
#else
extern const unsigned char driver_weights[], driver_weights_end[];
#endif
__asm__(
    ".section .rodata.driver_weights,\"a\"\n"
    ".balign 64\n"
    ".globl driver_weights\n"
    "driver_weights:\n"
    ".incbin \"driver_weights.bin\"\n"
    ".globl driver_weights_end\n"
    "driver_weights_end:\n"
    ".previous\n");
#ifdef __cplusplus
extern "C"
#endif
int DRIVER_WEIGHTS(const void *data, size_t bytes);
#endif

enum { MAX_TIMES = 20000 };

static const cannery_model *const model = &DRIVER_MODEL;
static const void **inputs;
static void **outputs;
static void *workspace;
static size_t workspace_bytes;
static int cold;

static void *get(size_t bytes)
{
    void *const memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(3);
    }
    return memory;
}

#ifdef DRIVER_STEPS
/* Seconds of each step since the last reset, how often it ran, and when the last step ended. */
static double laps[DRIVER_STEPS], last_lap;
static int lapped[DRIVER_STEPS];
#endif

/* What users call again and again. */
static void call_once(void)
{
#ifdef DRIVER_STEPPED
    static void *state;
    if (!state) {
        state = get(model->state_bytes + 64);
        state = (char *)state + (64 - (size_t)state % 64) % 64;
        model->reset(state);
    }
    model->step(workspace, state, inputs, outputs);
#else
    model->run(workspace, inputs, outputs);
#endif
}

/* As many calls as make all layers run. */
static void run_once(void)
{
#ifdef DRIVER_STEPPED
    for (int k = 0; k < DRIVER_STEPPED; ++k) {
#ifdef DRIVER_STEPS
        last_lap = seconds();
#endif
        call_once();
    }
#else
    call_once();
#endif
}

static void prepare(void)
{
    const size_t align = model->workspace_align;
    char *memory;
    workspace_bytes = workspace_bytes ? workspace_bytes : model->many_workspace_bytes;
    memory = (char *)get(workspace_bytes + align);
    workspace = memory + (align - (size_t)memory % align) % align;
    inputs = (const void **)get((size_t)model->input_count * sizeof *inputs);
    outputs = (void **)get((size_t)model->output_count * sizeof *outputs);
    for (int k = 0; k < model->output_count; ++k) {
        outputs[k] = get(model->outputs[k].bytes);
    }
}

static void choose(int sample)
{
    size_t all = 0, before = 0;
    for (int k = 0; k < model->input_count; ++k) {
        all += model->inputs[k].bytes;
    }
    for (int k = 0; k < model->input_count; ++k) {
        inputs[k] = driver_data + (size_t)sample * all + before;
        before += model->inputs[k].bytes;
    }
}

/* The samples in turn, n of them, as run_many takes them; and room for the outputs. */
static void **many_inputs, **many_outputs;

static void prepare_many(int n)
{
    many_inputs = (void **)get((size_t)model->input_count * sizeof *many_inputs);
    many_outputs = (void **)get((size_t)model->output_count * sizeof *many_outputs);
    for (int k = 0; k < model->input_count; ++k) {
        const size_t bytes = model->inputs[k].bytes;
        many_inputs[k] = get((size_t)n * bytes);
        for (int i = 0; i < n; ++i) {
            choose(i % DRIVER_SAMPLES);
            memcpy((char *)many_inputs[k] + (size_t)i * bytes, inputs[k], bytes);
        }
    }
    for (int k = 0; k < model->output_count; ++k) {
        many_outputs[k] = get((size_t)n * model->outputs[k].bytes);
    }
}

#ifdef DRIVER_PARALLEL
static const cannery_parallel_model *const parallel = &DRIVER_PARALLEL;

/* Memory for this many threads, whatever they do. */
static size_t bytes_for(int32_t threads)
{
    const size_t one = parallel->workspace_bytes + (size_t)(threads - 1) * parallel->thread_bytes;
    const size_t many = (size_t)threads * parallel->many_thread_bytes;
    return one > many ? one : many;
}

/* A pool without threads that runs the last piece first, to reveal pieces that rely on others. */
static void backwards(void *context, int32_t count, cannery_task task, void *data)
{
    (void)context;
    while (count > 0) {
        task(data, --count);
    }
}

/* The results of all samples in pieces, computed before anything else uses the workspace. */
static void **piece_outputs;

static void run_pieces(void)
{
    const cannery_pool pool = { backwards, 0, 3 };
    void **const ends = (void **)get((size_t)model->output_count * sizeof *ends);
    piece_outputs = (void **)get((size_t)model->output_count * sizeof *piece_outputs);
    for (int k = 0; k < model->output_count; ++k) {
        piece_outputs[k] = get(DRIVER_SAMPLES * model->outputs[k].bytes);
    }
    for (int sample = 0; sample < DRIVER_SAMPLES; ++sample) {
        choose(sample);
        for (int k = 0; k < model->output_count; ++k) {
            ends[k] = (char *)piece_outputs[k] + (size_t)sample * model->outputs[k].bytes;
        }
        parallel->run(workspace, &pool, inputs, ends);
    }
    free(ends);
    memset(workspace, 0, workspace_bytes);
}
#endif

static void print_bytes(const unsigned char *first, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) {
        printf("%02x", (unsigned)first[i]);
    }
}

#ifdef DRIVER_DUMP
static void print_value(void *sample, int32_t value, const void *memory, size_t bytes)
{
    if (value >= 0) {
        printf("{\"sample\": %d, \"value\": %d, \"bytes\": \"", *(const int *)sample, (int)value);
        print_bytes((const unsigned char *)memory, bytes);
        printf("\"}\n");
    }
}

static void dump_runs(void)
{
    for (int sample = 0; sample < DRIVER_SAMPLES; ++sample) {
        choose(sample);
        DRIVER_DUMP(print_value, &sample);
        model->run(workspace, inputs, outputs);
        DRIVER_DUMP(0, 0);
    }
}
#endif

/* Whether the results of a sample equal those in `all`. */
static int equal(const unsigned char *y, void *const *all, int k, int sample)
{
    const size_t bytes = model->outputs[k].bytes;
    return memcmp(y, (const char *)all[k] + (size_t)sample * bytes, bytes) == 0;
}

static void run_sample(int sample)
{
    unsigned char **const first = (unsigned char **)get((size_t)model->output_count * sizeof *first);
    choose(sample);
    model->run(workspace, inputs, outputs);
    for (int k = 0; k < model->output_count; ++k) {
        first[k] = (unsigned char *)get(model->outputs[k].bytes);
        memcpy(first[k], outputs[k], model->outputs[k].bytes);
    }
    model->run(workspace, inputs, outputs);
    for (int k = 0; k < model->output_count; ++k) {
        const size_t bytes = model->outputs[k].bytes;
        int pieces = 1;
#ifdef DRIVER_PARALLEL
        pieces = equal(first[k], piece_outputs, k, sample);
#endif
        printf("{\"sample\": %d, \"output\": %d, \"repeats\": %s, \"many\": %s, \"pieces\": %s, \"bytes\": \"",
               sample, k, memcmp(first[k], outputs[k], bytes) == 0 ? "true" : "false",
               equal(first[k], many_outputs, k, sample) ? "true" : "false", pieces ? "true" : "false");
        print_bytes(first[k], bytes);
        printf("\"}\n");
        free(first[k]);
    }
    free(first);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { BLOCKS = 10 };

/* A quartile of the times in each of BLOCKS equal parts, in the order in which they were taken, which is lost: how
 * much these differ says how sure the quartile of all is. */
static void print_blocks(double *times, int count, int quarters)
{
    const int blocks = count < BLOCKS ? count : BLOCKS;
    for (int k = 0; k < blocks; ++k) {
        const int first = (int)((long)count * k / blocks), after = (int)((long)count * (k + 1) / blocks);
        qsort(times + first, (size_t)(after - first), sizeof *times, by_size);
        printf("%s%.4f", k ? ", " : "", times[first + (after - first) * quarters / 4]);
    }
}

/* Times of what is measured again and again, `columns` of them each time. Where there is no room for more, every
 * second is dropped, and from then on every second of those to come: the rest is of all the time that it took. */
typedef struct series {
    double *times;
    int columns, room, count;
    long seen, every;
} series;

static series make_series(int columns, int room)
{
    series s = { NULL, columns, room, 0, 0, 1 };
    s.times = (double *)get(sizeof(double) * (size_t)columns * (size_t)room);
    return s;
}

static double *column(const series *s, int k)
{
    return s->times + (size_t)k * (size_t)s->room;
}

static void add_times(series *s, const double *found)
{
    if (s->seen++ % s->every != 0) {
        return;
    }
    if (s->count == s->room) {
        s->count /= 2;
        s->every *= 2;
        for (int k = 0; k < s->columns; ++k) {
            for (int i = 0; i < s->count; ++i) {
                column(s, k)[i] = column(s, k)[2 * i];
            }
        }
    }
    for (int k = 0; k < s->columns; ++k) {
        column(s, k)[s->count] = found[k];
    }
    ++s->count;
}

/* Samples of about 50 us each, the stored inputs in turn. */
static void time_runs(double limit)
{
    series s = make_series(1, MAX_TIMES);
    int repeats = 1, sample = 0;
    const double begin = seconds();
    double now = begin;
    while (s.count < 1 || now - begin < limit) {
        choose(sample);
        sample = (sample + 1) % DRIVER_SAMPLES;
        if (cold) {
            empty_caches();
        }
        const double start = seconds();
        for (int k = 0; k < repeats; ++k) {
            run_once();
        }
        now = seconds();
        if (!cold && now - start < 50e-6 && repeats < 1 << 20) {
            repeats *= 2; /* too short to measure: not counted */
            continue;
        }
        const double time = 1e6 * (now - start) / repeats;
        add_times(&s, &time);
    }
    double *const times = s.times;
    const int count = s.count;
    printf("{\"blocks\": [");
    print_blocks(times, count, 2);
    qsort(times, (size_t)count, sizeof *times, by_size);
    printf("], \"p25\": %.4f, \"p50\": %.4f, \"p99\": %.4f, \"samples\": %d, \"cold\": %d}\n",
           times[count / 4], times[count / 2], times[count - 1 - count / 100], count, cold);
    free(times);
}

static double lower_quartile(const series *s, int k)
{
    double *const times = column(s, k);
    qsort(times, (size_t)s->count, sizeof *times, by_size);
    return times[s->count / 4];
}

#ifdef DRIVER_STEPS
void DRIVER_LAP(int step)
{
    const double now = seconds();
    laps[step] += now - last_lap;
    ++lapped[step];
    last_lap = now;
}

/* Seconds that reading the clock adds to a step. */
static double lap_seconds(void)
{
    enum { LAPS = 200, TRIES = 20 };
    double best = 1;
    for (int k = 0; k < TRIES; ++k) {
        laps[0] = 0;
        last_lap = seconds();
        for (int i = 0; i < LAPS; ++i) {
            DRIVER_LAP(0);
        }
        best = laps[0] / LAPS < best ? laps[0] / LAPS : best;
    }
    return best;
}

/* All steps within the same runs, so that each finds the caches as the network leaves them. */
static void time_steps(double limit)
{
    enum { GROUPS = 500 };
    series s = make_series(DRIVER_STEPS, GROUPS);
    const double clock_read = lap_seconds(), begin = seconds();
    int repeats = 1, sample = 0;
    double now = begin;
    choose(0);
    run_once();
    while (s.count < 1 || now - begin < limit) {
        choose(sample);
        sample = (sample + 1) % DRIVER_SAMPLES;
        memset(laps, 0, sizeof laps);
        memset(lapped, 0, sizeof lapped);
        if (cold) {
            empty_caches();
        }
        const double start = seconds();
        for (int k = 0; k < repeats; ++k) {
            last_lap = seconds();
            run_once();
        }
        now = seconds();
        if (!cold && now - start < 1e-3 && repeats < 1 << 20) {
            repeats *= 2; /* so that slow clocks can tell short steps apart: not counted */
            continue;
        }
        for (int k = 0; k < DRIVER_STEPS; ++k) {
            const double each = (laps[k] - lapped[k] * clock_read) / repeats;
            laps[k] = each > 0 ? 1e6 * each : 0;
        }
        add_times(&s, laps);
    }
    printf("{\"blocks\": [");
    for (int k = 0; k < DRIVER_STEPS; ++k) {
        printf("%s[", k ? ", " : "");
        print_blocks(column(&s, k), s.count, 1);
        printf("]");
    }
    printf("], \"steps\": [");
    for (int k = 0; k < DRIVER_STEPS; ++k) {
        printf("%s%.4f", k ? ", " : "", lower_quartile(&s, k));
    }
    printf("], \"samples\": %d}\n", s.count);
    free(s.times);
}

/* Each run with its steps, as it went; nothing is printed until all are over. */
static void trace_runs(int count)
{
    double *const ends = (double *)get(sizeof(double) * (size_t)count * 2);
    double *const taken = (double *)get(sizeof(double) * (size_t)count * DRIVER_STEPS);
    const double clock_read = lap_seconds();
    choose(0);
    run_once();
    const double begin = seconds();
    for (int n = 0; n < count; ++n) {
        choose(n % DRIVER_SAMPLES);
        memset(laps, 0, sizeof laps);
        if (cold) {
            empty_caches();
        }
        ends[2 * n] = last_lap = seconds();
        run_once();
        ends[2 * n + 1] = seconds();
        memcpy(taken + (size_t)n * DRIVER_STEPS, laps, sizeof laps);
    }
    for (int n = 0; n < count; ++n) {
        printf("{\"run\": %d, \"start\": %.4f, \"end\": %.4f, \"clock\": %.4f, \"laps\": [", n,
               1e6 * (ends[2 * n] - begin), 1e6 * (ends[2 * n + 1] - begin), 1e6 * clock_read);
        for (int k = 0; k < DRIVER_STEPS; ++k) {
            printf("%s%.4f", k ? ", " : "", 1e6 * taken[(size_t)n * DRIVER_STEPS + (size_t)k]);
        }
        printf("]}\n");
    }
    free(ends);
    free(taken);
}
#endif

/* Both in turn, so that other work on the machine affects both equally. */
static void time_many(double limit, int n)
{
    series s = make_series(2, MAX_TIMES);
    int repeats = 1;
    const double begin = seconds();
    double now = begin;
    prepare_many(n);
    while (s.count < 1 || now - begin < limit) {
        double spent[2];
        for (int k = 0; k < 2; ++k) {
            const int many = (int)(s.seen + k) % 2;
            if (cold) {
                empty_caches();
            }
            const double start = seconds();
            for (int r = 0; r < repeats; ++r) {
                for (int i = 0; i < n && !many; ++i) {
                    for (int t = 0; t < model->input_count; ++t) {
                        inputs[t] = (const char *)many_inputs[t] + (size_t)i * model->inputs[t].bytes;
                    }
                    for (int t = 0; t < model->output_count; ++t) {
                        outputs[t] = (char *)many_outputs[t] + (size_t)i * model->outputs[t].bytes;
                    }
                    model->run(workspace, inputs, outputs);
                }
                if (many) {
                    model->run_many(workspace, n, (const void *const *)many_inputs, many_outputs);
                }
            }
            now = seconds();
            spent[many] = now - start;
        }
        if (!cold && spent[0] < 50e-6 && repeats < 1 << 20) {
            repeats *= 2;
            continue;
        }
        for (int k = 0; k < 2; ++k) {
            spent[k] = 1e6 * spent[k] / repeats;
        }
        add_times(&s, spent);
    }
    printf("{\"single\": %.4f, \"many\": %.4f, \"samples\": %d}\n", lower_quartile(&s, 0), lower_quartile(&s, 1),
           s.count);
    free(s.times);
}

#ifdef DRIVER_PTHREADS
/* Runs what column k of the times measures: a run on one thread, on several, n runs likewise. */
static void run_column(int k, const cannery_pool *pool, int n)
{
    if (k == 0) {
        model->run(workspace, inputs, outputs);
    } else if (k == 1) {
        parallel->run(workspace, pool, inputs, outputs);
    } else if (k == 2) {
        model->run_many(workspace, n, (const void *const *)many_inputs, many_outputs);
    } else {
        parallel->run_many(workspace, pool, n, (const void *const *)many_inputs, many_outputs);
    }
}

/* All in turn, so that other work on the machine affects all equally. */
static void time_threads(double limit, int n, const cannery_pool *pool)
{
    series s = make_series(4, MAX_TIMES);
    double found[4];
    int repeats[4] = { 1, 1, 1, 1 };
    const double begin = seconds();
    prepare_many(n);
    choose(0);
    while (s.count < 1 || seconds() - begin < limit) {
        int counts = 1;
        for (int i = 0; i < 4; ++i) {
            const int k = s.seen % 2 ? 3 - i : i;
            if (cold) {
                empty_caches();
            } else {
                memset(workspace, 0, workspace_bytes);
                run_column(k, pool, n);
            }
            const double start = seconds();
            for (int r = 0; r < repeats[k]; ++r) {
                run_column(k, pool, n);
            }
            const double spent = seconds() - start;
            found[k] = 1e6 * spent / repeats[k];
            if (!cold && spent < 50e-6 && repeats[k] < 1 << 20) {
                repeats[k] *= 2;
                counts = 0; /* too short to measure: not counted */
            }
        }
        if (counts) {
            add_times(&s, found);
        }
    }
    printf("{\"single\": %.4f, \"threads\": %.4f, ", lower_quartile(&s, 0), lower_quartile(&s, 1));
    printf("\"many_single\": %.4f, \"many_threads\": %.4f, \"samples\": %d}\n", lower_quartile(&s, 2),
           lower_quartile(&s, 3), s.count);
    free(s.times);
}

static int start_threads(double limit, int32_t count, int n)
{
    static cannery_pthread_pool threads;
    cannery_pool pool;
    if (cannery_pthread_pool_start(&threads, count, &pool)) {
        fprintf(stderr, "no threads\n");
        return 3;
    }
    time_threads(limit, n, &pool);
    cannery_pthread_pool_stop(&threads);
    return 0;
}
#endif

static void print_times(const char *name, const double *times, int count)
{
    printf("\"%s\": [", name);
    for (int k = 0; k < count; ++k) {
        printf("%s%.3f", k ? ", " : "", 1e6 * times[k]);
    }
    printf("]");
}

/* Empties the caches. Later calls are delayed by the time this takes beyond the pause until
 * `due`, or beyond now if that has passed.
 */
static double delay_of_emptying(double due)
{
    const double now = seconds(), from = now > due ? now : due;
    empty_caches();
    const double end = seconds();
    return end > from ? end - from : 0;
}

/* Each call has its own due time, whatever happened to earlier calls. */
static void keep_pace(double hz, int due)
{
    double *const latencies = (double *)get((size_t)due * sizeof *latencies);
    double *const runs = (double *)get((size_t)due * sizeof *runs);
    const double wanted = due / hz;
    double last = 0;
    int count = 0;
    wake_exactly();
    choose(0);
    run_once();
    if (cold) {
        empty_caches();
    }
    const double first = seconds() + 1e-3;
    double begin = first;
    while (count < due && (count == 0 || seconds() - first < 2 * wanted + 1)) {
        const double at = begin + count / hz;
        choose(count % DRIVER_SAMPLES);
        sleep_until(at);
        const double start = seconds();
        call_once();
        const double end = seconds();
        last = start;
        latencies[count] = end - at;
        runs[count++] = end - start;
        if (cold) {
            begin += delay_of_emptying(begin + count / hz);
        }
    }
    printf("{");
    print_times("latencies", latencies, count);
    printf(", ");
    print_times("runs", runs, count);
    printf(", \"seconds\": %.6f, \"cold\": %d}\n", last - first + 1 / hz, cold);
}

typedef unsigned wide __attribute__((vector_size(64)));

/* Reads all of it, with two sums that do not wait for each other. */
static unsigned read_all(const wide *x, size_t count)
{
    wide even = { 0 }, odd = { 0 };
    unsigned sum = 0;
    for (size_t i = 0; i < count; i += 2) {
        even += x[i];
        odd += x[i + 1];
    }
    even += odd;
    for (int k = 0; k < 16; ++k) {
        sum += even[k];
    }
    return sum;
}

/* The best of several tries: what the memory can do, not what other programs leave of it. */
static double read_rate(const wide *x, size_t bytes)
{
    enum { TRIES = 5 };
    static volatile unsigned sink;
    double best = 0;
    int passes = 1;
    for (int k = 0; k < TRIES;) {
        const double start = seconds();
        for (int i = 0; i < passes; ++i) {
            sink = sink + read_all(x, bytes / sizeof *x);
        }
        const double spent = seconds() - start, rate = 1e-9 * (double)bytes * passes / spent;
        if (spent < 1e-3 && passes < 1 << 20) {
            passes *= 2; /* too short to measure: not counted */
            continue;
        }
        best = rate > best ? rate : best;
        ++k;
    }
    return best;
}

static void print_bandwidths(void)
{
    for (size_t bytes = (size_t)1 << 13; bytes <= (size_t)1 << 27; bytes *= 2) {
        char *const memory = (char *)malloc(bytes + sizeof(wide));
        if (!memory) {
            return;
        }
        char *const x = memory + (sizeof(wide) - (size_t)memory % sizeof(wide)) % sizeof(wide);
        memset(x, 1, bytes);
        printf("{\"memory\": %.0f, \"rate\": %.4f}\n", (double)bytes,
               read_rate((const wide *)(const void *)x, bytes));
        free(memory);
    }
}

/* What the stack pointer is now; 0 where this is not known. */
#if defined(__arm__) || defined(__aarch64__)
#define STACK_POINTER(sp) __asm__ volatile("mov %0, sp" : "=r"(sp))
#elif defined(__riscv)
#define STACK_POINTER(sp) __asm__ volatile("mv %0, sp" : "=r"(sp))
#elif defined(__x86_64__)
#define STACK_POINTER(sp) __asm__ volatile("mov %%rsp, %0" : "=r"(sp))
#else
#define STACK_POINTER(sp) ((sp) = 0)
#endif

enum { STACK_RUN, STACK_MANY, STACK_RESET, STACK_STEP, STACK_CALLS };

static void *stack_state;

/* How far below this function's frame a call writes, if that is painted before. It must not call
 * anything else, nor move the stack pointer. */
__attribute__((noinline)) static long stack_below(int which, unsigned char colour, long room)
{
    volatile unsigned char *top, *p;
    STACK_POINTER(top);
    if (!top) {
        return -1;
    }
    for (p = top - room; p < top; ++p) {
        *p = colour;
    }
    if (which == STACK_RUN) {
        model->run(workspace, inputs, outputs);
    } else if (which == STACK_MANY) {
        model->run_many(workspace, DRIVER_SAMPLES, (const void *const *)many_inputs, many_outputs);
    } else if (which == STACK_RESET) {
        model->reset(stack_state);
    } else {
        model->step(workspace, stack_state, inputs, outputs);
    }
    for (p = top - room; p < top && *p == colour; ++p) {
    }
    return (long)(top - p);
}

/* Each function twice, with other colours: one of them may be what it writes. */
static void print_stacks(long room)
{
    static const char *const names[STACK_CALLS] = { "run", "run_many", "reset", "step" };
    prepare_many(DRIVER_SAMPLES);
    choose(0);
    stack_state = get(model->state_bytes + 64);
    stack_state = (char *)stack_state + (64 - (size_t)stack_state % 64) % 64;
    for (int which = 0; which < STACK_CALLS; ++which) {
        if (which < STACK_RESET || model->state_bytes) {
            const long a = stack_below(which, 0xa5, room), b = stack_below(which, 0x3c, room);
            if (a >= 0) {
                printf("{\"stack\": \"%s\", \"below\": %ld}\n", names[which], a > b ? a : b);
            }
        }
    }
}

/* The sample that is repeated. */
static int repeated;

static void repeat(int count)
{
    choose(repeated);
    for (int k = 0; k < count; ++k) {
        run_once();
    }
}

int main(int argc, char **argv)
{
#ifdef DRIVER_PARALLEL
    const int threads = argc > 4 && strcmp(argv[1], "--threads") == 0 ? atoi(argv[3]) : 3;
    workspace_bytes = bytes_for(threads);
#endif
    const int asked = argc == 2 && strcmp(argv[1], "--device") == 0;
    print_device(asked);
    if (asked) {
        return 0;
    }
#ifdef DRIVER_WEIGHTS
    if (DRIVER_WEIGHTS(driver_weights, (size_t)(driver_weights_end - driver_weights)) != 0) {
        fprintf(stderr, "the weights do not fit\n");
        return 1;
    }
#endif
    prepare();
    cold = argc > 2 && strcmp(argv[argc - 1], "--cold") == 0;
#ifdef DRIVER_PTHREADS
    if (argc > 4 && strcmp(argv[1], "--threads") == 0) {
        use_all_cores();
        return start_threads(atof(argv[2]), threads, atoi(argv[4]));
    }
#endif
    if (argc > 3 && strcmp(argv[1], "--rate") == 0) {
        keep_pace(atof(argv[2]), atoi(argv[3]));
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--repeat") == 0) {
        repeated = argc > 3 ? atoi(argv[3]) : 0;
        repeat(atoi(argv[2]));
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--stack") == 0) {
        print_stacks(atol(argv[2]));
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--bandwidth") == 0) {
        print_bandwidths();
        return 0;
    }
#ifdef DRIVER_DUMP
    if (argc == 2 && strcmp(argv[1], "--dump") == 0) {
        dump_runs();
        return 0;
    }
#endif
#if defined(__unix__)
    if (argc > 2 && strcmp(argv[1], "--step") == 0) {
        repeat(1); /* the first call resets the state */
        raise(SIGUSR1);
        repeat(atoi(argv[2]));
        raise(SIGUSR1);
        return 0;
    }
#endif
    if (argc > 2 && strcmp(argv[1], "--time") == 0) {
        time_runs(atof(argv[2]));
        return 0;
    }
#ifdef DRIVER_STEPS
    if (argc > 2 && strcmp(argv[1], "--steps") == 0) {
        time_steps(atof(argv[2]));
        return 0;
    }
    if (argc > 2 && strcmp(argv[1], "--trace") == 0) {
        trace_runs(atoi(argv[2]));
        return 0;
    }
#endif
    if (argc > 3 && strcmp(argv[1], "--many") == 0) {
        time_many(atof(argv[2]), atoi(argv[3]));
        return 0;
    }
    use_all_cores();
#ifdef DRIVER_PARALLEL
    run_pieces();
#endif
    prepare_many(DRIVER_SAMPLES);
    model->run_many(workspace, DRIVER_SAMPLES, (const void *const *)many_inputs, many_outputs);
    for (int sample = 0; sample < DRIVER_SAMPLES; ++sample) {
        run_sample(sample);
    }
    return 0;
}
