/* Computes CALLS steps of the network `net` while no system call is allowed: any ends the program.
 *
 * With BREAK it makes one itself, or takes memory or a lock.
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

/* A call is of BLOCK steps at least, and of STEPS times as many at most. */
#ifndef STEPS
#define STEPS 1
#endif

static float x[STEPS * NET_X_LEN], y[STEPS * NET_SCORES_LEN];
static unsigned char workspace[NET_WORKSPACE_BYTES + NET_WORKSPACE_ALIGN];
#ifdef NET_STATE_BYTES
static double state[NET_STATE_BYTES / 8], other[NET_STATE_BYTES / 8];
#endif

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

static void leave_the_promise(void)
{
    if (BREAK == 1) {
        (void)getppid();
    } else if (BREAK == 2) {
        void *volatile p = malloc(1u << 24); /* too large for what malloc has at hand */
        free(p);
    }
}

int main(void)
{
    unsigned char *const aligned =
        workspace + (NET_WORKSPACE_ALIGN - (size_t)workspace % NET_WORKSPACE_ALIGN) % NET_WORKSPACE_ALIGN;
    if (!allow_nothing()) {
        return REFUSED;
    }
#ifdef NET_STATE_BYTES
    net_reset(state);
    net_reset(other);
#endif
    for (int k = 0; k < CALLS; ++k) {
        x[k % (STEPS * NET_X_LEN)] = (float)(k % 7) - 3.0f;
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
#endif
        leave_the_promise();
    }
    syscall(SYS_exit, 0);
}
