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
 * The caller is one of the threads. Each first takes the piece with its own number, so that its
 * caches serve it again in the next step, then any piece that is left: if a thread sleeps or is
 * preempted, the others do its pieces. Nothing is locked as long as threads wait actively. They do
 * so for CANNERY_POOL_SPINS rounds before they sleep: a network has work every few microseconds,
 * and waking a thread takes longer than that. Set it to 0 if threads do not have cores of their
 * own. Models may share a pool, but only one thread at a time may use it. It needs gcc or clang,
 * and -pthread.
 */
#ifndef CANNERY_PTHREAD_POOL_H
#define CANNERY_PTHREAD_POOL_H

#include <pthread.h>

#include "parallel.h"

#ifndef CANNERY_POOL_SPINS
#define CANNERY_POOL_SPINS 2000
#endif

#ifdef __cplusplus
#define CANNERY_POOL_NULL nullptr /* strict C++ warns about 0 and about NULL */
#else
#define CANNERY_POOL_NULL NULL
#endif

enum { CANNERY_POOL_MAX_THREADS = 32 }; /* the bits of a word */

struct cannery_pthread_pool;

typedef struct cannery_pool_worker {
    struct cannery_pthread_pool *pool;
    int32_t index;
    pthread_t thread;
} cannery_pool_worker;

typedef struct cannery_pthread_pool {
    pthread_mutex_t mutex;
    pthread_cond_t begun; /* there may be pieces to take, or the pool stops */
    pthread_cond_t ended; /* no piece is left */
    cannery_task task;
    void *data;
    uint32_t waiting; /* bit i: nobody has taken piece i yet */
    int32_t unfinished; /* pieces */
    int32_t sleepers; /* threads that wait for begun */
    int32_t caller_sleeps; /* for ended */
    int32_t stopping;
    int32_t threads; /* with the caller's; 0: not started */
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

static inline void cannery_pool_finish(cannery_pthread_pool *p)
{
    /* Either this thread sees that the caller sleeps, or the caller that nothing is left. */
    if (__atomic_sub_fetch(&p->unfinished, 1, __ATOMIC_SEQ_CST) == 0
        && __atomic_load_n(&p->caller_sleeps, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_signal(&p->ended);
        pthread_mutex_unlock(&p->mutex);
    }
}

/* Takes and does pieces as long as there are any, first the one with this number. A piece taken
 * belongs to the present call, which lasts until the piece is finished, however old the word read
 * before was. */
static inline void cannery_pool_work(cannery_pthread_pool *p, int32_t index)
{
    const uint32_t own = CANNERY_CAST(uint32_t, 1) << index;
    uint32_t seen = __atomic_load_n(&p->waiting, __ATOMIC_ACQUIRE);
    while (seen) {
        const uint32_t piece = seen & own ? own : seen & (0u - seen);
        seen = __atomic_fetch_and(&p->waiting, ~piece, __ATOMIC_ACQ_REL);
        if (seen & piece) {
            p->task(p->data, __builtin_ctz(piece));
            cannery_pool_finish(p);
            seen = __atomic_load_n(&p->waiting, __ATOMIC_ACQUIRE);
        }
    }
}

/* Waits, actively at first, until there are pieces; 0: the pool stops. */
static inline int cannery_pool_wait(cannery_pthread_pool *p)
{
    for (int k = 0; k < CANNERY_POOL_SPINS; ++k) {
        if (__atomic_load_n(&p->waiting, __ATOMIC_ACQUIRE)) {
            return 1;
        }
        cannery_pool_pause();
    }
    pthread_mutex_lock(&p->mutex);
    __atomic_add_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
    while (!p->stopping && !__atomic_load_n(&p->waiting, __ATOMIC_SEQ_CST)) {
        pthread_cond_wait(&p->begun, &p->mutex);
    }
    __atomic_sub_fetch(&p->sleepers, 1, __ATOMIC_SEQ_CST);
    const int goes_on = !p->stopping;
    pthread_mutex_unlock(&p->mutex);
    return goes_on;
}

static inline void *cannery_pool_thread(void *argument)
{
    const cannery_pool_worker *const worker = CANNERY_CAST(const cannery_pool_worker *, argument);
    while (cannery_pool_wait(worker->pool)) {
        cannery_pool_work(worker->pool, worker->index);
    }
    return CANNERY_POOL_NULL;
}

/* The cannery_parallel_for of such a pool; the context is the pool. */
static inline void cannery_pthread_pool_run(void *context, int32_t count, cannery_task task, void *data)
{
    cannery_pthread_pool *const p = CANNERY_CAST(cannery_pthread_pool *, context);
    if (count < 1) {
        return;
    }
    p->task = task;
    p->data = data;
    __atomic_store_n(&p->unfinished, count, __ATOMIC_RELAXED);
    __atomic_store_n(&p->waiting, 0xffffffffu >> (CANNERY_POOL_MAX_THREADS - count), __ATOMIC_SEQ_CST);
    /* Either a thread that is about to sleep sees the pieces, or it is seen here. */
    if (__atomic_load_n(&p->sleepers, __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&p->mutex);
        pthread_cond_broadcast(&p->begun);
        pthread_mutex_unlock(&p->mutex);
    }
    cannery_pool_work(p, 0);
    for (int k = 0; k < CANNERY_POOL_SPINS; ++k) {
        if (__atomic_load_n(&p->unfinished, __ATOMIC_ACQUIRE) == 0) {
            return;
        }
        cannery_pool_pause();
    }
    pthread_mutex_lock(&p->mutex);
    __atomic_store_n(&p->caller_sleeps, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&p->unfinished, __ATOMIC_SEQ_CST) != 0) {
        pthread_cond_wait(&p->ended, &p->mutex);
    }
    __atomic_store_n(&p->caller_sleeps, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&p->mutex);
}

/* Ends the threads; nothing may be running in them. A pool that was not started stays as it is. */
static inline void cannery_pthread_pool_stop(cannery_pthread_pool *p)
{
    if (p->threads == 0) {
        return;
    }
    pthread_mutex_lock(&p->mutex);
    p->stopping = 1;
    pthread_cond_broadcast(&p->begun);
    pthread_mutex_unlock(&p->mutex);
    for (int32_t k = 0; k < p->threads - 1; ++k) {
        pthread_join(p->workers[k].thread, CANNERY_POOL_NULL);
    }
    pthread_cond_destroy(&p->ended);
    pthread_cond_destroy(&p->begun);
    pthread_mutex_destroy(&p->mutex);
    p->threads = 0;
}

/* Starts threads - 1 threads besides the caller's, at most 32 in all. Returns 0 and sets *pool,
 * which models take; or returns an error number, and then nothing is left running. */
static inline int cannery_pthread_pool_start(cannery_pthread_pool *p, int32_t threads, cannery_pool *pool)
{
    int error = pthread_mutex_init(&p->mutex, CANNERY_POOL_NULL);
    if (error) {
        return error;
    }
    error = pthread_cond_init(&p->begun, CANNERY_POOL_NULL);
    if (error) {
        pthread_mutex_destroy(&p->mutex);
        return error;
    }
    error = pthread_cond_init(&p->ended, CANNERY_POOL_NULL);
    if (error) {
        pthread_cond_destroy(&p->begun);
        pthread_mutex_destroy(&p->mutex);
        return error;
    }
    threads = threads < 1 ? 1 : threads;
    threads = threads > CANNERY_POOL_MAX_THREADS ? CANNERY_POOL_MAX_THREADS : threads;
    p->waiting = 0;
    p->unfinished = 0;
    p->sleepers = 0;
    p->caller_sleeps = 0;
    p->stopping = 0;
    p->threads = 1;
    while (!error && p->threads < threads) {
        cannery_pool_worker *const worker = &p->workers[p->threads - 1];
        worker->pool = p;
        worker->index = p->threads;
        error = pthread_create(&worker->thread, CANNERY_POOL_NULL, cannery_pool_thread, worker);
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
