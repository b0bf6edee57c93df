/* Which vector instructions a process executes, by samples (x86-64 Linux).
 *
 * A timer of CPU time interrupts it; the first bytes of the instruction at which that happens tell
 * whether it is of AVX (VEX prefix) or AVX-512 (EVEX prefix), code that was generated included.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

/* Samples; of these in code of AVX, of AVX-512. */
static volatile long found[3];

static const unsigned char *behind_prefixes(const unsigned char *code)
{
    while (*code && strchr("\x66\xf2\xf3\xf0\x2e\x36\x3e\x26\x64\x65", *code)) {
        ++code;
    }
    return (*code & 0xf0) == 0x40 ? code + 1 : code;
}

/* BMI has the same prefix, but no vectors: ANDN, BLS*, BZHI, PDEP, PEXT, MULX, BEXTR, shifts, RORX. */
static int is_scalar(const unsigned char *code)
{
    const int map = code[1] & 31, op = code[3];
    return *code == 0xc4 && ((map == 2 && op >= 0xf2 && op <= 0xf7) || (map == 3 && op == 0xf0));
}

static void sample(int number, siginfo_t *info, void *context)
{
    const greg_t rip = ((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    const unsigned char *const code = behind_prefixes((const unsigned char *)rip);
    (void)number;
    (void)info;
    ++found[0];
    if ((*code == 0xc4 || *code == 0xc5) && !is_scalar(code)) {
        ++found[1];
    } else if (*code == 0x62) {
        ++found[2];
    }
}

void watch_begin(int microseconds)
{
    const struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    memset((void *)found, 0, sizeof found);
    action.sa_sigaction = sample;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &timer, NULL);
}

void watch_end(long *counts)
{
    const struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &none, NULL);
    for (int k = 0; k < 3; ++k) {
        counts[k] = found[k];
    }
}
