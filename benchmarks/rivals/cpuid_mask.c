/* Makes a process believe that its x86-64 processor ends at SSE4.2 (Linux, LD_PRELOAD).
 *
 * Processors with CPUID faulting let a process trap its own CPUID instructions. The handler executes
 * them in its place and clears the bits of AVX and all that came later, so that every library
 * chooses, by its own dispatch, what it would run on such a processor. Without CPUID faulting the
 * process is ended with exit code 77.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define SET_CPUID 0x1012 /* ARCH_SET_CPUID of arch_prctl */

enum { UNABLE = 77 };

static struct sigaction before;

static unsigned bits(const unsigned char *list, size_t count)
{
    unsigned mask = 0;
    for (size_t k = 0; k < count; ++k) {
        mask |= 1u << list[k];
    }
    return mask;
}

#define BITS(...) bits((const unsigned char[]){__VA_ARGS__}, sizeof((char[]){__VA_ARGS__}))

/* Leaf 1: FMA, XSAVE, OSXSAVE, AVX, F16C. Leaf 7: BMI, AVX2, AVX-512, vector AES, AMX. */
static void clear(unsigned leaf, unsigned part, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    if (leaf == 1) {
        *c &= ~BITS(12, 26, 27, 28, 29);
    } else if (leaf == 7 && part == 0) {
        *b &= ~BITS(3, 5, 8, 16, 17, 21, 26, 27, 28, 30, 31);
        *c &= ~BITS(1, 6, 8, 9, 10, 11, 12, 14);
        *d &= ~BITS(2, 3, 8, 22, 23, 24, 25);
    } else if (leaf == 7) {
        *a = *b = *c = *d = 0;
    } else if (leaf == 0x80000001u) {
        *c &= ~BITS(11, 16, 21);
    }
}

static void trapped(int number, siginfo_t *info, void *context)
{
    greg_t *const r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *const code = (const unsigned char *)r[REG_RIP];
    if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2) {
        sigaction(SIGSEGV, &before, NULL); /* a fault of its own: happens again, unhandled */
        (void)number;
        return;
    }
    const unsigned leaf = (unsigned)r[REG_RAX], part = (unsigned)r[REG_RCX];
    unsigned a, b, c, d;
    syscall(SYS_arch_prctl, SET_CPUID, 1);
    __cpuid_count(leaf, part, a, b, c, d);
    syscall(SYS_arch_prctl, SET_CPUID, 0);
    clear(leaf, part, &a, &b, &c, &d);
    r[REG_RAX] = a;
    r[REG_RBX] = b;
    r[REG_RCX] = c;
    r[REG_RDX] = d;
    r[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = trapped;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before);
    if (syscall(SYS_arch_prctl, SET_CPUID, 0) != 0) {
        _exit(UNABLE);
    }
}
