/* A network that runs step by step, driven line by line like the rivals.
 *
 *   steps INPUT OUTPUT TIMES
 *
 * INPUT holds whole calls of the only input, one after the other; from a new state, OUTPUT gets what
 * each computes, and TIMES a double for each: microseconds, of many runs of the sequence the fastest.
 * Then it serves, see `serving.h`. DRIVER_MODEL is the network.
 */
#include "serving.h"

#include "cannery/cannery.h"

extern const cannery_model DRIVER_MODEL;

enum { RUNS = 200 };

static const cannery_model *const model = &DRIVER_MODEL;
static char *input, *output;
static void *workspace, *state;
static long calls, at;

/* The next call of the sequence, which begins anew after its end. */
static void step(void)
{
    const void *const from[] = {input + (size_t)at * model->inputs[0].bytes};
    void *const to[] = {output + (size_t)at * model->outputs[0].bytes};
    model->step(workspace, state, from, to);
    at = at + 1 < calls ? at + 1 : 0;
}

static void run(long count)
{
    for (long k = 0; k < count; ++k) {
        step();
    }
}

static void prepare(const char *path)
{
    FILE *const file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        fail("no input");
    }
    const size_t bytes = (size_t)ftell(file);
    calls = (long)(bytes / model->inputs[0].bytes);
    rewind(file);
    input = (char *)get(bytes, 64);
    output = (char *)get((size_t)calls * model->outputs[0].bytes, 64);
    workspace = get(model->workspace_bytes, model->workspace_align);
    state = get(model->state_bytes, 64);
    if (calls < 1 || fread(input, 1, bytes, file) != bytes) {
        fail("the input ends early");
    }
    fclose(file);
}

static void write_file(const char *path, const void *data, size_t bytes)
{
    FILE *const file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
        fail("a file cannot be written");
    }
}

/* Of each call, the fastest of RUNS runs. */
static double *times_of_calls(void)
{
    double *const fastest = (double *)get((size_t)calls * sizeof *fastest, 64);
    for (int n = 0; n < RUNS; ++n) {
        model->reset(state);
        at = 0;
        for (long k = 0; k < calls; ++k) {
            const double start = seconds();
            step();
            const double us = 1e6 * (seconds() - start);
            fastest[k] = n == 0 || us < fastest[k] ? us : fastest[k];
        }
    }
    return fastest;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !model->step || model->input_count - model->state_count != 1
        || model->output_count - model->state_count != 1) {
        fail("needs INPUT, OUTPUT and TIMES, and a network of one input and one output");
    }
    prepare(argv[1]);
    model->reset(state);
    run(calls);
    write_file(argv[2], output, (size_t)calls * model->outputs[0].bytes);
    write_file(argv[3], times_of_calls(), (size_t)calls * sizeof(double));
    serve(run);
    return 0;
}
