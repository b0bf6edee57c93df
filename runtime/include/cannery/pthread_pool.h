/* SPDX-License-Identifier: MIT-0
 *
 * A small pool of POSIX threads for the parallel functions of generated models, without heap:
 *
 *     static cannery_pthread_pool threads;              (zero-filled)
 *     cannery_pool pool;
 *     if (cannery_pthread_pool_start(&threads, 4, &pool) == 0) {
 *         ball_run_parallel(workspace, &pool, image, scores);
 *     }
 *     cannery_pthread_pool_stop(&threads);
 *
 * The caller is one of the threads and takes piece 0. Work is handed over without locks as long as
 * the others wait actively, which they do for CANNERY_POOL_SPINS rounds before they sleep: a network
 * hands over work every few microseconds, waking a thread takes longer than that. Set it to 0 where
 * threads share a core. Models may share a pool, but only one thread at a time may use it.
 * It needs gcc or clang, and -pthread.
 */
#ifndef CANNERY_PTHREAD_POOL_H
#define CANNERY_PTHREAD_POOL_H

#include <pthread.h>

#include "parallel.h"

#ifndef CANNERY_POOL_SPINS
#define CANNERY_POOL_SPINS 2000
#endif

enum { CANNERY_POOL_MAX_THREADS = 64 };

struct cannery_pthread_pool;

typedef struct cannery_pool_worker {
    struct cannery_pthread_pool *pool;
    int32_t index;
    pthread_t thread;
} cannery_pool_worker;

typedef struct cannery_pthread_pool {
    pthread_mutex_t mutex;
    pthread_cond_t begun; /* round has changed */
    pthread_cond_t ended; /* busy is 0 */
    cannery_task task;
    void *data;
    int32_t count;
    int32_t threads; /* with the caller's; 0: not started */
    uint32_t round; /* grows with each call; workers act when it changes */
    int32_t busy; /* workers that are not done with this round */
    int32_t stopping;
    cannery_pool_worker workers[CANNERY_POOL_MAX_THREADS - 1];
} cannery_pthread_pool;

static inline void cannery_pool_pause(void)
{
#if defined(__i386__) || defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The pieces of a thread: index, and more where there are more pieces than threads. */
static inline void cannery_pool_work(const cannery_pthread_pool *p, int32_t index)
{
    for (int32_t i = index; i < p->count; i += p->threads) {
        p->task(p->data, i);
    }
}

static inline uint32_t cannery_pool_next_round(cannery_pthread_pool *p, uint32_t last)
{
    for (int k = 0; k < CANNERY_POOL_SPINS; ++k) {
        const uint32_t now = __atomic_load_n(&p->round, __ATOMIC_ACQUIRE);
        if (now != last) {
            return now;
        }
        cannery_pool_pause();
    }
    pthread_mutex_lock(&p->mutex);
    while (__atomic_load_n(&p->round, __ATOMIC_ACQUIRE) == last) {
        pthread_cond_wait(&p->begun, &p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
    return last + 1u;
}

static inline void *cannery_pool_thread(void *argument)
{
    const cannery_pool_worker *const worker = (const cannery_pool_worker *)argument;
    cannery_pthread_pool *const p = worker->pool;
    uint32_t round = 0;
    for (;;) {
        round = cannery_pool_next_round(p, round);
        if (p->stopping) {
            return 0;
        }
        cannery_pool_work(p, worker->index);
        if (__atomic_sub_fetch(&p->busy, 1, __ATOMIC_ACQ_REL) == 0) {
            pthread_mutex_lock(&p->mutex);
            pthread_cond_signal(&p->ended);
            pthread_mutex_unlock(&p->mutex);
        }
    }
}

static inline void cannery_pool_begin_round(cannery_pthread_pool *p)
{
    __atomic_store_n(&p->busy, p->threads - 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&p->mutex);
    __atomic_store_n(&p->round, p->round + 1u, __ATOMIC_RELEASE);
    pthread_cond_broadcast(&p->begun);
    pthread_mutex_unlock(&p->mutex);
}

/* The cannery_parallel_for of such a pool; the context is the pool. */
static inline void cannery_pthread_pool_run(void *context, int32_t count, cannery_task task, void *data)
{
    cannery_pthread_pool *const p = (cannery_pthread_pool *)context;
    p->task = task;
    p->data = data;
    p->count = count;
    cannery_pool_begin_round(p);
    cannery_pool_work(p, 0);
    for (int k = 0; k < CANNERY_POOL_SPINS; ++k) {
        if (__atomic_load_n(&p->busy, __ATOMIC_ACQUIRE) == 0) {
            return;
        }
        cannery_pool_pause();
    }
    pthread_mutex_lock(&p->mutex);
    while (__atomic_load_n(&p->busy, __ATOMIC_ACQUIRE) != 0) {
        pthread_cond_wait(&p->ended, &p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
}

/* Ends the threads; nothing may run in them. A pool that was not started stays as it is. */
static inline void cannery_pthread_pool_stop(cannery_pthread_pool *p)
{
    if (p->threads == 0) {
        return;
    }
    p->stopping = 1;
    cannery_pool_begin_round(p);
    for (int32_t k = 0; k < p->threads - 1; ++k) {
        pthread_join(p->workers[k].thread, 0);
    }
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->begun);
    pthread_mutex_destroy(&p->mutex);
    p->threads = 0;
}

/* Starts threads - 1 threads beside the caller's, 64 in all at most. Returns 0, and what models are
 * given in *pool; or an error number, and then nothing is left running. */
static inline int cannery_pthread_pool_start(cannery_pthread_pool *p, int32_t threads, cannery_pool *pool)
{
    int error = pthread_mutex_init(&p->mutex, 0);
    if (error) {
        return error;
    }
    error = pthread_cond_init(&p->begun, 0);
    if (error) {
        pthread_mutex_destroy(&p->mutex);
        return error;
    }
    error = pthread_cond_init(&p->ended, 0);
    if (error) {
        pthread_cond_destroy(&p->begun);
        pthread_mutex_destroy(&p->mutex);
        return error;
    }
    threads = threads < 1 ? 1 : threads;
    threads = threads > CANNERY_POOL_MAX_THREADS ? CANNERY_POOL_MAX_THREADS : threads;
    p->round = 0;
    p->stopping = 0;
    p->threads = 1;
    while (!error && p->threads < threads) {
        cannery_pool_worker *const worker = &p->workers[p->threads - 1];
        worker->pool = p;
        worker->index = p->threads;
        error = pthread_create(&worker->thread, 0, cannery_pool_thread, worker);
        p->threads += !error;
    }
    if (error) {
        cannery_pthread_pool_stop(p);
        return error;
    }
    pool->run = cannery_pthread_pool_run;
    pool->context = p;
    pool->threads = threads;
    return 0;
}

#endif
