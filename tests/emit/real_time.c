/* Computes CALLS calls of the network `net` while nothing may be done that takes time without bound.
 *
 * With SANITIZED, clang's RealtimeSanitizer watches them; otherwise no system call is allowed: any
 * ends the program. With BREAK it makes one itself, takes memory, or takes a lock.
 */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "net.h"

enum { CALLS = 200, REFUSED = 77 };

#ifndef BREAK
#define BREAK 0
#endif

#ifdef SANITIZED
#define PROMISES __attribute__((nonblocking))
#else
#define PROMISES
#endif

/* A call is of BLOCK steps at least, and of STEPS times as many at most. */
#ifndef STEPS
#define STEPS 1
#endif

/* As many inputs are computed at once. */
#ifndef MANY
#define MANY 1
#endif

#ifdef NET_MANY_WORKSPACE_BYTES
#define MANY_BYTES NET_MANY_WORKSPACE_BYTES
#else
#define MANY_BYTES 0
#endif

#ifdef NET_PARALLEL_WORKSPACE_BYTES
#define SHARED_BYTES NET_PARALLEL_WORKSPACE_BYTES(1) + NET_MANY_PARALLEL_WORKSPACE_BYTES(1)
#else
#define SHARED_BYTES 0
#endif

static float x[STEPS * MANY * NET_X_LEN], y[STEPS * MANY * NET_SCORES_LEN];
static unsigned char workspace[NET_WORKSPACE_BYTES + MANY_BYTES + SHARED_BYTES + NET_WORKSPACE_ALIGN];
#ifdef NET_STATE_BYTES
static double state[NET_STATE_BYTES / 8], other[NET_STATE_BYTES / 8];
#endif

#ifndef SANITIZED
/* From now on the process may end, and nothing else. */
static int allow_nothing(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    const struct sock_fprog program = { sizeof rules / sizeof *rules, rules };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#endif

static void leave_the_promise(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (BREAK == 1) {
        (void)getppid();
    } else if (BREAK == 2) {
        void *volatile p = malloc(1u << 24); /* too large for what malloc has at hand */
        free(p);
    } else if (BREAK == 3) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
}

#ifdef NET_PARALLEL_WORKSPACE_BYTES
/* Tasks of several threads, on this one: threads of a pool wait for each other, as their owner wants. */
static void one_after_the_other(void *context, int32_t count, cannery_task task, void *data)
{
    (void)context;
    for (int32_t i = 0; i < count; ++i) {
        task(data, i);
    }
}
#endif

/* One call of each function, with other inputs each time. */
static void compute(unsigned char *aligned, int k) PROMISES
{
    x[k % (STEPS * MANY * NET_X_LEN)] = (float)(k % 7) - 3.0f;
#ifdef NET_STATE_BYTES
    net_step(state, x, y);
    net_step_in(aligned, other, x, y);
#if STEPS > 1
    net_steps(state, STEPS * BLOCK, x, y);
    net_steps_in(aligned, other, (STEPS - 1) * BLOCK, x, y);
#endif
#else
    net_run(x, y);
    net_run_in(aligned, x, y);
#ifdef NET_MANY_WORKSPACE_BYTES
    net_run_many(aligned, MANY, x, y);
#endif
#ifdef NET_PARALLEL_WORKSPACE_BYTES
    const cannery_pool pool = { one_after_the_other, 0, 1 };
    net_run_parallel(aligned, &pool, x, y);
    net_run_many_parallel(aligned, &pool, MANY, x, y);
#endif
#endif
    leave_the_promise();
}

int main(void)
{
    unsigned char *const aligned =
        workspace + (NET_WORKSPACE_ALIGN - (size_t)workspace % NET_WORKSPACE_ALIGN) % NET_WORKSPACE_ALIGN;
#ifndef SANITIZED
    if (!allow_nothing()) {
        return REFUSED;
    }
#endif
#ifdef NET_STATE_BYTES
    net_reset(state);
    net_reset(other);
#endif
    for (int k = 0; k < CALLS; ++k) {
        compute(aligned, k);
    }
    syscall(SYS_exit, 0);
}
