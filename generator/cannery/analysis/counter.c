/* A plugin for QEMU (TCG): counts how often each piece of translated code runs.
 *
 *   qemu-aarch64 -plugin counter.so,out=FILE program arguments...
 *
 * writes a line for each piece when the program ends: the address of its first instruction, the
 * number of its instructions, and how often it ran. Debian's packages have no header for plugins, so
 * this file declares what it uses of the interface (docs/devel/tcg-plugins.rst of QEMU), which is
 * the same since QEMU 6. PLUGIN_VERSION is the version of the interface that QEMU asks for.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

enum { QEMU_PLUGIN_CB_NO_REGS = 0 };

/* No processor that QEMU emulates has smaller pages. */
enum { PAGE_BYTES = 1024 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(
    qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
extern void qemu_plugin_register_vcpu_tb_exec_cb(
    struct qemu_plugin_tb *tb, void (*cb)(unsigned int vcpu_index, void *userdata), int flags, void *userdata);
extern void qemu_plugin_register_vcpu_insn_exec_cb(
    struct qemu_plugin_insn *insn, void (*cb)(unsigned int vcpu_index, void *userdata), int flags, void *userdata);
extern void qemu_plugin_register_atexit_cb(
    qemu_plugin_id_t id, void (*cb)(qemu_plugin_id_t id, void *userdata), void *userdata);
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
extern size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

EXPORT int qemu_plugin_version = PLUGIN_VERSION;

typedef struct piece {
    uint64_t address;
    size_t instructions;
    uint64_t runs;
    struct piece *next;
} piece;

static piece *pieces;
static char path[4096];

static void ran(unsigned int vcpu_index, void *data)
{
    (void)vcpu_index;
    ++((piece *)data)->runs;
}

static piece *add(uint64_t address, size_t instructions)
{
    piece *const one = (piece *)calloc(1, sizeof *one);
    if (!one) {
        abort();
    }
    one->address = address;
    one->instructions = instructions;
    one->next = pieces;
    pieces = one;
    return one;
}

/* QEMU reports a last instruction that continues on another page, and its bytes up to there,
 * but may leave it to the next piece: one that reaches the end of a page is counted separately. */
static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    const size_t count = qemu_plugin_tb_n_insns(tb);
    struct qemu_plugin_insn *const last = qemu_plugin_tb_get_insn(tb, count - 1);
    const uint64_t first_byte = qemu_plugin_insn_vaddr(last);
    const uint64_t behind = first_byte + qemu_plugin_insn_size(last);
    const int apart = count > 1 && first_byte / PAGE_BYTES != behind / PAGE_BYTES;
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(
        tb, ran, QEMU_PLUGIN_CB_NO_REGS, add(qemu_plugin_tb_vaddr(tb), count - (size_t)apart));
    if (apart) {
        qemu_plugin_register_vcpu_insn_exec_cb(last, ran, QEMU_PLUGIN_CB_NO_REGS, add(first_byte, 1));
    }
}

static void ended(qemu_plugin_id_t id, void *data)
{
    FILE *const file = fopen(path, "w");
    (void)id;
    (void)data;
    if (!file) {
        return;
    }
    for (const piece *one = pieces; one; one = one->next) {
        if (one->runs) {
            fprintf(file, "%" PRIx64 " %zu %" PRIu64 "\n", one->address, one->instructions, one->runs);
        }
    }
    fprintf(file, "end\n");
    fclose(file);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int k = 0; k < argc; ++k) {
        if (strncmp(argv[k], "out=", 4) == 0 && strlen(argv[k]) < sizeof path) {
            strcpy(path, argv[k] + 4);
        }
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
