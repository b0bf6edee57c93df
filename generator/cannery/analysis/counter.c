/* A plugin for QEMU (TCG): counts how often each piece of translated code runs.
 *
 *   qemu-aarch64 -plugin counter.so,out=FILE[,code=on] program arguments...
 *
 * writes a line for each piece when the program ends: the address of its first instruction, the
 * number of its instructions, how often it ran, and, with `code`, the bytes of each instruction as
 * hex digits, for code that is in no file or at other addresses in each run. Debian's packages have no header for plugins, so
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

/* No processor that QEMU emulates has smaller pages, or longer instructions. */
enum { PAGE_BYTES = 1024, LONGEST = 16 };

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

/* Until QEMU 9 it takes the instruction alone, and returns where its bytes are; later it copies as
 * many of them as there is room for, and returns their number. */
extern uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t room);

EXPORT int qemu_plugin_version = PLUGIN_VERSION;

typedef struct piece {
    uint64_t address;
    size_t instructions;
    uint64_t runs;
    char *code;
    struct piece *next;
} piece;

static piece *pieces;
static char path[4096];
static int with_code;

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

/* " 1f2003d5 ..." for instructions of a piece. */
static char *code_of(const struct qemu_plugin_tb *tb, size_t first, size_t count)
{
    char *const text = (char *)calloc(count * (2 * LONGEST + 1) + 1, 1), *end = text;
    if (!text) {
        abort();
    }
    for (size_t k = first; k < first + count; ++k) {
        const struct qemu_plugin_insn *const insn = qemu_plugin_tb_get_insn(tb, k);
        const size_t size = qemu_plugin_insn_size(insn);
        unsigned char copied[LONGEST];
        const uintptr_t answer = qemu_plugin_insn_data(insn, copied, sizeof copied);
        const unsigned char *const bytes = answer > LONGEST ? (const unsigned char *)answer : copied;
        *end++ = ' ';
        for (size_t at = 0; at < size && at < LONGEST; ++at) {
            end += sprintf(end, "%02x", (unsigned)bytes[at]);
        }
    }
    return text;
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
    piece *const whole = add(qemu_plugin_tb_vaddr(tb), count - (size_t)apart);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, ran, QEMU_PLUGIN_CB_NO_REGS, whole);
    whole->code = with_code ? code_of(tb, 0, whole->instructions) : NULL;
    if (apart) {
        piece *const end = add(first_byte, 1);
        qemu_plugin_register_vcpu_insn_exec_cb(last, ran, QEMU_PLUGIN_CB_NO_REGS, end);
        end->code = with_code ? code_of(tb, count - 1, 1) : NULL;
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
            fprintf(file, "%" PRIx64 " %zu %" PRIu64 "%s\n", one->address, one->instructions, one->runs,
                one->code ? one->code : "");
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
        with_code |= strcmp(argv[k], "code=on") == 0;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
