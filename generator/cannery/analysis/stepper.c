/* Runs a program of this x86 machine, and counts the instructions between two of its SIGUSR1
 * signals.
 *
 *   stepper FILE program arguments...
 *
 * writes what counter.c writes: the address of an instruction, 1, and how often it ran. It stops
 * after each instruction, so it is slow. It is for instruction sets that no emulator has.
 */
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct entry {
    uint64_t address;
    uint64_t runs;
} entry;

static entry *table;
static size_t room = 1u << 12, used;

static entry *find(uint64_t address)
{
    size_t k = (size_t)(address * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
    while (table[k].runs && table[k].address != address) {
        k = (k + 1) & (room - 1);
    }
    return &table[k];
}

static int grow(void)
{
    entry *const old = table;
    const size_t before = room;
    room *= 2;
    table = (entry *)calloc(room, sizeof *table);
    if (!table) {
        return 0;
    }
    for (size_t k = 0; k < before; ++k) {
        if (old[k].runs) {
            *find(old[k].address) = old[k];
        }
    }
    free(old);
    return 1;
}

static int count(uint64_t address)
{
    if (2 * used > room && !grow()) {
        return 0;
    }
    entry *const one = find(address);
    used += one->runs == 0;
    one->address = address;
    ++one->runs;
    return 1;
}

static uint64_t place_of(pid_t child)
{
#if defined(__x86_64__)
    const size_t place = offsetof(struct user_regs_struct, rip);
#else
    const size_t place = offsetof(struct user_regs_struct, eip);
#endif
    return (uint64_t)(unsigned long)ptrace(PTRACE_PEEKUSER, child, place, 0);
}

/* Returns the exit code of the program; 3 if it cannot be traced or was killed. */
static int trace(pid_t child)
{
    int status, stepping = 0, ended = 0, number = 0;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) {
        return 3;
    }
    for (;;) {
        if (stepping && !count(place_of(child))) {
            return 3;
        }
        if (ptrace(stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, child, 0, number) != 0
            || waitpid(child, &status, 0) != child) {
            return 3;
        }
        if (WIFEXITED(status)) {
            return ended ? WEXITSTATUS(status) : 3;
        }
        if (!WIFSTOPPED(status)) {
            return 3;
        }
        number = WSTOPSIG(status);
        if (number == SIGUSR1) {
            ended = stepping;
            stepping = !stepping;
        }
        if (number == SIGUSR1 || number == SIGTRAP) {
            number = 0; /* the others are for the program */
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 2;
    }
    const pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) == 0) {
            execv(argv[2], argv + 2);
        }
        perror(argv[2]);
        _exit(3);
    }
    table = (entry *)calloc(room, sizeof *table);
    const int status = child > 0 && table ? trace(child) : 3;
    if (status != 0) {
        return status;
    }
    FILE *const file = fopen(argv[1], "w");
    if (!file) {
        perror(argv[1]);
        return 3;
    }
    for (size_t k = 0; k < room; ++k) {
        if (table[k].runs) {
            fprintf(file, "%" PRIx64 " 1 %" PRIu64 "\n", table[k].address, table[k].runs);
        }
    }
    fprintf(file, "end\n");
    return fclose(file) ? 3 : 0;
}
