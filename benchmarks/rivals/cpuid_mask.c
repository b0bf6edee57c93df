/* Makes a process believe that its x86-64 processor ends at SSE4.2 or at AVX2 (Linux, LD_AUDIT).
 *
 * The dynamic linker tells this library of every library that it has mapped, before any code of it
 * runs. The CPUID instructions in it, whose places the file CPUID_SITES lists (see limits.py),
 * become UD2, which is as long and traps. The handler executes CPUID in its place and clears the bits
 * of what CPUID_LIMIT ("sse" or "avx2") does not have, so that every library chooses, by its own
 * dispatch, what it would run on such a processor. No processor has to support that.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { MOST_SITES = 4096 };

static const unsigned char *sites[MOST_SITES];
static size_t count;
static int avx2;

static unsigned bits(const unsigned char *list, size_t length)
{
    unsigned mask = 0;
    for (size_t k = 0; k < length; ++k) {
        mask |= 1u << list[k];
    }
    return mask;
}

#define BITS(...) bits((const unsigned char[]){__VA_ARGS__}, sizeof((char[]){__VA_ARGS__}))

/* Leaf 1: FMA, XSAVE, OSXSAVE, AVX, F16C. Leaf 7: BMI, AVX2, AVX-512, vector AES, AMX. */
static void clear(unsigned leaf, unsigned part, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    if (leaf == 7 && part == 0) {
        *b &= ~BITS(16, 17, 21, 26, 27, 28, 30, 31);
        *c &= ~BITS(1, 6, 8, 9, 10, 11, 12, 14);
        *d &= ~BITS(2, 3, 8, 22, 23, 24, 25);
    } else if (leaf == 7 || leaf == 0x24) { /* AVX-VNNI, BF16, AVX10 */
        *a = *b = *c = *d = 0;
    }
    if (avx2) {
        return;
    }
    if (leaf == 1) {
        *c &= ~BITS(12, 26, 27, 28, 29);
    } else if (leaf == 7) {
        *b &= ~BITS(3, 5, 8);
    } else if (leaf == 0x80000001u) {
        *c &= ~BITS(11, 16, 21);
    }
}

static int is_site(const unsigned char *code)
{
    for (size_t k = 0; k < count; ++k) {
        if (sites[k] == code) {
            return 1;
        }
    }
    return 0;
}

static void trapped(int number, siginfo_t *info, void *context)
{
    greg_t *const r = ((ucontext_t *)context)->uc_mcontext.gregs;
    (void)info;
    if (!is_site((const unsigned char *)r[REG_RIP])) {
        signal(number, SIG_DFL); /* a fault of its own: happens again, unhandled */
        return;
    }
    const unsigned leaf = (unsigned)r[REG_RAX], part = (unsigned)r[REG_RCX];
    unsigned a, b, c, d;
    __cpuid_count(leaf, part, a, b, c, d);
    clear(leaf, part, &a, &b, &c, &d);
    r[REG_RAX] = a;
    r[REG_RBX] = b;
    r[REG_RCX] = c;
    r[REG_RDX] = d;
    r[REG_RIP] += 2;
}

/* UD2 in the place of CPUID; a page that does not become writable ends the process. */
static void redirect(unsigned char *code)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *const start = (unsigned char *)((size_t)code / page * page);
    const size_t length = (size_t)(code + 2 - start);
    if (code[0] != 0x0f || code[1] != 0xa2 || count == MOST_SITES ||
        mprotect(start, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
        static const char text[] = "cpuid_mask: a site cannot be redirected\n";
        (void)!write(2, text, sizeof text - 1);
        _exit(1);
    }
    sites[count++] = code;
    code[1] = 0x0b;
    mprotect(start, length, PROT_READ | PROT_EXEC);
}

/* Lines of CPUID_SITES: the address within a library, a space, its path. */
static void redirect_all(const char *path, size_t base)
{
    FILE *const file = fopen(getenv("CPUID_SITES"), "r");
    char line[PATH_MAX + 32];
    while (file && fgets(line, sizeof line, file)) {
        char *name;
        const unsigned long address = strtoul(line, &name, 16);
        name[strcspn(name, "\n")] = 0;
        if (*name == ' ' && strcmp(name + 1, path) == 0) {
            redirect((unsigned char *)(base + address));
        }
    }
    if (file) {
        fclose(file);
    }
}

unsigned la_version(unsigned version)
{
    const char *const limit = getenv("CPUID_LIMIT");
    struct sigaction action;
    avx2 = limit && strcmp(limit, "avx2") == 0;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = trapped;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGILL, &action, NULL);
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
    char path[PATH_MAX];
    (void)space;
    (void)cookie;
    if (realpath(*map->l_name ? map->l_name : "/proc/self/exe", path) && getenv("CPUID_SITES")) {
        redirect_all(path, map->l_addr);
    }
    return 0;
}
