/* SPDX-License-Identifier: MIT-0
 *
 * The contract between a generated model that may use several cores and a provider of threads:
 * your program's own pool, the one in pthread_pool.h, or OpenMP.
 */
#ifndef CANNERY_PARALLEL_H
#define CANNERY_PARALLEL_H

#include "cannery.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A conversion, such as from a number of threads to a size, without warnings in C and C++. */
#ifndef CANNERY_CAST
#ifdef __cplusplus
#define CANNERY_CAST(type, value) static_cast<type>(value)
#else
#define CANNERY_CAST(type, value) ((type)(value))
#endif
#endif

/* One piece of work. Pieces of one call do not touch what another one writes. */
typedef void (*cannery_task)(void *data, int32_t index);

/* Calls task(data, i) exactly once for each 0 <= i < count, on any threads and in any order,
 * and returns after all of them: the caller then sees what they wrote. Two threads must not
 * call it at once unless it allows that. */
typedef void (*cannery_parallel_for)(void *context, int32_t count, cannery_task task, void *data);

/* Something that runs pieces of work: `run` gets `context` and counts of up to `threads`.
 * `threads` says how finely work is cut, and so how much memory it needs. */
typedef struct cannery_pool {
    cannery_parallel_for run;
    void *context;
    int32_t threads;
} cannery_pool;

/* A model for tools, next to cannery_model: run_parallel needs workspace_bytes and thread_bytes
 * for every thread except the first, run_many_parallel needs many_thread_bytes for every
 * thread. */
typedef struct cannery_parallel_model {
    uint32_t struct_bytes;
    const cannery_model *model;
    size_t workspace_bytes;
    size_t thread_bytes;
    size_t many_thread_bytes;
    void (*run)(void *workspace, const cannery_pool *pool, const void *const *inputs, void *const *outputs);
    void (*run_many)(void *workspace, const cannery_pool *pool, int32_t n, const void *const *inputs, void *const *outputs);
} cannery_parallel_model;

/* The first of `parts` that belongs to piece `index` of `count`, 0 <= index <= count; they differ
 * by at most one part. */
static inline int32_t cannery_first_part(int32_t parts, int32_t index, int32_t count)
{
    const int32_t rest = parts % count;
    return parts / count * index + (index < rest ? index : rest);
}

#ifdef __cplusplus
}
#endif

#endif
