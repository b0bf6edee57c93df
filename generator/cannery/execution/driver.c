/* Runs one generated network on stored inputs, or times it; prints one JSON object per line.
 *
 *   driver --run            each sample twice; the bytes of every output, in hexadecimal
 *   driver --time SECONDS   microseconds of one run: quartiles and 99th percentile
 *
 * DRIVER_MODEL is the network, DRIVER_SAMPLES the number of samples in driver_data: one after the
 * other, each all inputs in the model's order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cannery/cannery.h"

#ifdef __cplusplus
extern "C" {
#endif
extern const cannery_model DRIVER_MODEL;
extern const unsigned char driver_data[];
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

enum { MAX_TIMES = 20000 };

static const cannery_model *const model = &DRIVER_MODEL;
static const void **inputs;
static void **outputs;
static void *workspace;

static double seconds(void)
{
#if defined(__unix__)
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
#else
    return (double)clock() / (double)CLOCKS_PER_SEC;
#endif
}

static void *get(size_t bytes)
{
    void *const memory = calloc(1, bytes ? bytes : 1);
    if (!memory) {
        fprintf(stderr, "out of memory\n");
        exit(3);
    }
    return memory;
}

static void prepare(void)
{
    const size_t align = model->workspace_align;
    char *const memory = (char *)get(model->workspace_bytes + align);
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

static void run_sample(int sample)
{
    choose(sample);
    model->run(workspace, inputs, outputs);
    for (int k = 0; k < model->output_count; ++k) {
        const size_t bytes = model->outputs[k].bytes;
        const unsigned char *const y = (const unsigned char *)outputs[k];
        unsigned char *const first = (unsigned char *)get(bytes);
        memcpy(first, y, bytes);
        if (k == 0) {
            model->run(workspace, inputs, outputs);
        }
        printf("{\"sample\": %d, \"output\": %d, \"repeats\": %s, \"bytes\": \"", sample, k,
               memcmp(first, y, bytes) == 0 ? "true" : "false");
        for (size_t i = 0; i < bytes; ++i) {
            printf("%02x", (unsigned)first[i]);
        }
        printf("\"}\n");
        free(first);
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Samples of about 50 us each, the stored inputs in turn. */
static void time_runs(double limit)
{
    static double times[MAX_TIMES];
    int count = 0, repeats = 1, sample = 0;
    const double begin = seconds();
    double now = begin;
    while (count < 1 || (count < MAX_TIMES && now - begin < limit)) {
        choose(sample);
        sample = (sample + 1) % DRIVER_SAMPLES;
        const double start = seconds();
        for (int k = 0; k < repeats; ++k) {
            model->run(workspace, inputs, outputs);
        }
        now = seconds();
        if (now - start < 50e-6 && repeats < 1 << 20) {
            repeats *= 2; /* too short to be measured: not counted */
            continue;
        }
        times[count++] = 1e6 * (now - start) / repeats;
    }
    qsort(times, (size_t)count, sizeof *times, by_size);
    printf("{\"p25\": %.4f, \"p50\": %.4f, \"p99\": %.4f, \"samples\": %d}\n", times[count / 4],
           times[count / 2], times[count - 1 - count / 100], count);
}

int main(int argc, char **argv)
{
    prepare();
    if (argc > 2 && strcmp(argv[1], "--time") == 0) {
        time_runs(atof(argv[2]));
        return 0;
    }
    for (int sample = 0; sample < DRIVER_SAMPLES; ++sample) {
        run_sample(sample);
    }
    return 0;
}
