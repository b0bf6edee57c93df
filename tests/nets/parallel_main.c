/* Runs generated networks on several threads and compares with single runs, bit by bit.
 *
 * A JSON line for each: {"net": k, "fault": "..."}. The pool of the first rounds has no threads: it
 * computes the pieces one by one, the last one first, so that a piece that relies on an earlier one,
 * or writes what is another one's, changes the result on any machine. Then come real threads (not
 * with PARALLEL_NO_THREADS), for a sanitizer to watch.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cannery/parallel.h"
#ifndef PARALLEL_NO_THREADS
#include "cannery/pthread_pool.h"
#endif

extern const cannery_parallel_model *const nets[];
extern const int net_count;

enum { MAX_TENSORS = 32, MANY = 7, THREADS = 5, REPEATS = 3 };

static void backwards(void *context, int32_t count, cannery_task task, void *data)
{
    ++*(int *)context;
    while (count > 0) {
        task(data, --count);
    }
}

static unsigned char *take(size_t bytes)
{
    unsigned char *const p = (unsigned char *)calloc(1, bytes + 128);
    if (!p) {
        exit(3);
    }
    return p + (64 - (size_t)p % 64) % 64;
}

/* The tensors of MANY runs, and the results of single ones. */
static void *inputs[MAX_TENSORS], *outputs[MAX_TENSORS], *expected[MAX_TENSORS];

static void fill(const cannery_model *m)
{
    uint32_t state = 1;
    for (int k = 0; k < m->input_count; ++k) {
        const size_t bytes = MANY * m->inputs[k].bytes;
        unsigned char *const p = take(bytes);
        float *const x = (float *)(void *)p;
        for (size_t i = 0; i < bytes / (m->inputs[k].dtype == CANNERY_FLOAT32 ? 4 : 1); ++i) {
            state = state * 1664525u + 1013904223u;
            if (m->inputs[k].dtype == CANNERY_FLOAT32) {
                x[i] = (float)(state >> 8) / 8388608.0f - 1.0f;
            } else {
                p[i] = (unsigned char)(state >> 24);
            }
        }
        inputs[k] = p;
    }
    for (int k = 0; k < m->output_count; ++k) {
        outputs[k] = take(MANY * m->outputs[k].bytes);
        expected[k] = take(MANY * m->outputs[k].bytes);
    }
}

static void clear(const cannery_model *m)
{
    for (int k = 0; k < m->output_count; ++k) {
        memset(outputs[k], 0x7f, MANY * m->outputs[k].bytes);
    }
}

static int differs(const cannery_model *m, int n)
{
    int found = 0;
    for (int k = 0; k < m->output_count; ++k) {
        found |= memcmp(outputs[k], expected[k], (size_t)n * m->outputs[k].bytes) != 0;
    }
    return found;
}

static const char *try_pool(const cannery_parallel_model *p, const cannery_pool *pool)
{
    const size_t more = (size_t)pool->threads - 1;
    unsigned char *const one = take(p->workspace_bytes + more * p->thread_bytes);
    unsigned char *const many = take((more + 1) * p->many_thread_bytes);
    for (int k = 0; k < REPEATS; ++k) {
        clear(p->model);
        memset(one + p->workspace_bytes, 0xff, more * p->thread_bytes);
        p->run(one, pool, (const void *const *)inputs, outputs);
        if (differs(p->model, 1)) {
            return "a run differs";
        }
    }
    for (int n = 0; n <= MANY; ++n) {
        clear(p->model);
        p->run_many(many, pool, n, (const void *const *)inputs, outputs);
        if (differs(p->model, n)) {
            return "a run of many differs";
        }
    }
    return "";
}

static const char *check(const cannery_parallel_model *p, int *calls)
{
    const cannery_model *const m = p->model;
    unsigned char *const memory = take(m->many_workspace_bytes);
    const char *fault = "";
    fill(m);
    for (int i = 0; i < MANY; ++i) {
        const void *x[MAX_TENSORS];
        void *y[MAX_TENSORS];
        for (int k = 0; k < m->input_count; ++k) {
            x[k] = (const char *)inputs[k] + (size_t)i * m->inputs[k].bytes;
        }
        for (int k = 0; k < m->output_count; ++k) {
            y[k] = (char *)expected[k] + (size_t)i * m->outputs[k].bytes;
        }
        m->run(memory, x, y);
    }
    for (int32_t threads = 1; threads <= THREADS && !*fault; ++threads) {
        const cannery_pool pool = { backwards, calls, threads };
        fault = try_pool(p, &pool);
    }
#ifndef PARALLEL_NO_THREADS
    for (int32_t threads = 1; threads <= 4 && !*fault; ++threads) {
        static cannery_pthread_pool pthreads;
        cannery_pool pool;
        if (cannery_pthread_pool_start(&pthreads, threads, &pool)) {
            return "no threads";
        }
        fault = try_pool(p, &pool);
        cannery_pthread_pool_stop(&pthreads);
    }
#endif
    return fault;
}

int main(void)
{
    for (int k = 0; k < net_count; ++k) {
        int calls = 0;
        const char *const fault = check(nets[k], &calls);
        printf("{\"net\": %d, \"calls\": %d, \"fault\": \"%s\"}\n", k, calls, fault);
        fflush(stdout);
    }
    return 0;
}
