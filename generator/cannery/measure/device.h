/* What a program runs on: what the processor and the kernel say, and how long a few things take,
 * which reveals an emulator. It is one line of JSON; cannery/target/device.py reads it.
 *
 * Without an OS (Arm's M profile), only the processor is asked, and time is its own cycles.
 */
#ifndef CANNERY_DEVICE_H
#define CANNERY_DEVICE_H

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "machine.h"

#if defined(__unix__)
#include <sys/utsname.h>
#endif
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define DEVICE_X86 1
#endif
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define DEVICE_ARM_M 1
#endif

enum { DEVICE_TEXT = 160 };

/* `vendor`, `family`, `model`: on Arm the implementer, 0, the part. `kernel_says`: a different
 * processor that the kernel reports; empty if it agrees or there is no kernel. */
struct device {
    char vendor[DEVICE_TEXT], name[DEVICE_TEXT], features[DEVICE_TEXT], hypervisor[DEVICE_TEXT];
    char process[DEVICE_TEXT], kernel_says[DEVICE_TEXT], boot[DEVICE_TEXT];
    unsigned family, model, revision;
    int core;
};

/* ---- Kernel files ---- */

/* Text without surrounding white space. */
static inline void device_trim(char *text)
{
    size_t n = strlen(text), lead = 0;
    while (n && isspace((unsigned char)text[n - 1])) {
        text[--n] = 0;
    }
    while (isspace((unsigned char)text[lead])) {
        ++lead;
    }
    memmove(text, text + lead, n - lead + 1);
}

/* The first line of a file; empty if there is none. */
static inline void device_file(const char *path, char *text)
{
    FILE *file = 0;
    text[0] = 0;
#if defined(__unix__)
    file = fopen(path, "r");
#else
    (void)path;
#endif
    if (file) {
        if (!fgets(text, DEVICE_TEXT, file)) {
            text[0] = 0;
        }
        fclose(file);
    }
    device_trim(text);
}

/* What /proc/cpuinfo says about a core under `key`; empty if nothing. Old kernels list the cores
 * first, and then what they share. */
static inline void device_cpuinfo(int core, const char *key, char *text)
{
    char line[1024];
    const size_t length = strlen(key);
    int number = 0;
    FILE *file = 0;
    text[0] = 0;
#if defined(__linux__)
    file = fopen(KERNEL_FILES "/proc/cpuinfo", "r");
#endif
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (value && strncmp(line, "processor", 9) == 0 && isspace((unsigned char)line[9])) {
            number = atoi(value + 1);
        }
        if (value && strncmp(line, key, length) == 0 && strspn(line + length, " \t") + line + length == value
            && (number <= core || !text[0])) {
            snprintf(text, DEVICE_TEXT, "%s", value + 1);
            device_trim(text);
        }
    }
    if (file) {
        fclose(file);
    }
}

static inline void device_feature(struct device *d, int present, const char *name)
{
    const size_t used = strlen(d->features);
    if (present) {
        snprintf(d->features + used, DEVICE_TEXT - used, "%s%s", used ? " " : "", name);
    }
}

/* ---- x86: CPUID ---- */

#if defined(DEVICE_X86)
static inline void device_x86_features(struct device *d)
{
    unsigned a = 0, b = 0, c = 0, edx = 0, ext = 0, b7 = 0, c7 = 0, state = 0, unused;
    __get_cpuid(1, &a, &b, &c, &edx);
    __get_cpuid_count(7, 0, &a, &b7, &c7, &unused);
    __get_cpuid(0x80000001u, &a, &b, &ext, &unused);
    if (c >> 27 & 1) {
        __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(state), "=d"(unused) : "c"(0)); /* xgetbv */
    }
    const int avx = (state & 6) == 6, avx512 = avx && (state & 0xe0) == 0xe0;
    const struct { unsigned word; int bit, usable; const char *name; } all[] = {
        { edx, 26, 1, "sse2" }, { c, 9, 1, "ssse3" }, { c, 20, 1, "sse4_2" }, { c, 22, 1, "movbe" },
        { c, 23, 1, "popcnt" }, { c, 30, 1, "rdrand" }, { ext, 8, 1, "3dnowprefetch" },
        { c, 28, avx, "avx" }, { c, 12, avx, "fma" }, { b7, 5, avx, "avx2" },
        { b7, 16, avx512, "avx512f" }, { b7, 17, avx512, "avx512dq" }, { b7, 30, avx512, "avx512bw" },
        { b7, 31, avx512, "avx512vl" }, { c7, 11, avx512, "avx512_vnni" },
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; ++k) {
        device_feature(d, all[k].usable && all[k].word >> all[k].bit & 1, all[k].name);
    }
}

/* Twelve characters of a leaf, if they are text. */
static inline void device_x86_letters(unsigned b, unsigned c, unsigned d, char *text)
{
    memcpy(text, &b, 4);
    memcpy(text + 4, &c, 4);
    memcpy(text + 8, &d, 4);
    text[12] = 0;
    for (int k = 0; k < 12 && text[k]; ++k) {
        if (!isprint((unsigned char)text[k])) {
            text[0] = 0;
        }
    }
    device_trim(text);
}

static inline void device_processor(struct device *d)
{
    unsigned a = 0, b = 0, c = 0, e = 0;
    __get_cpuid(0, &a, &b, &c, &e);
    device_x86_letters(b, e, c, d->vendor);
    __get_cpuid(1, &a, &b, &c, &e);
    const int hypervisor = (int)(c >> 31 & 1);
    const unsigned family = a >> 8 & 15, model = a >> 4 & 15;
    d->family = family == 15 ? family + (a >> 20 & 255) : family;
    d->model = family >= 6 ? model | (a >> 12 & 0xf0) : model;
    d->revision = a & 15;
    __cpuid(0x40000000u, a, b, c, e); /* undefined without a hypervisor */
    device_x86_letters(b, c, e, d->hypervisor);
    if (!hypervisor && strcmp(d->hypervisor, "TCGTCGTCGTCG") != 0) {
        d->hypervisor[0] = 0;
    }
    if ((unsigned)__get_cpuid_max(0x80000000u, 0) >= 0x80000004u) {
        unsigned words[13] = { 0 };
        for (unsigned k = 0; k < 3; ++k) {
            unsigned *const w = words + 4 * k;
            __cpuid(0x80000002u + k, w[0], w[1], w[2], w[3]);
        }
        memcpy(d->name, words, sizeof words);
        device_trim(d->name);
    }
    device_x86_features(d);
}

static inline void device_contradiction(struct device *d)
{
    char vendor[DEVICE_TEXT], family[DEVICE_TEXT], model[DEVICE_TEXT], part[DEVICE_TEXT];
    device_cpuinfo(d->core, "vendor_id", vendor);
    device_cpuinfo(d->core, "cpu family", family);
    device_cpuinfo(d->core, "model", model);
    device_cpuinfo(d->core, "CPU part", part);
    if (part[0]) {
        snprintf(d->kernel_says, DEVICE_TEXT, "CPU part %.20s", part);
    } else if (vendor[0] && family[0] && model[0]
               && (strcmp(vendor, d->vendor) != 0 || (unsigned)atoi(family) != d->family
                   || (unsigned)atoi(model) != d->model)) {
        snprintf(d->kernel_says, DEVICE_TEXT, "%.40s family %.10s model %.10s", vendor, family, model);
    }
}
#endif

/* ---- Arm: the main identification register ---- */

#if defined(__arm__) || defined(__aarch64__)
#define DEVICE_ARM 1

static inline void device_midr(struct device *d, unsigned long long midr)
{
    snprintf(d->vendor, DEVICE_TEXT, "0x%02x", (unsigned)(midr >> 24 & 255));
    d->model = (unsigned)(midr >> 4 & 0xfff);
    d->revision = (unsigned)(midr >> 16 & 0xf0) | (unsigned)(midr & 15);
}

static inline unsigned long device_number(int core, const char *key)
{
    char text[DEVICE_TEXT];
    device_cpuinfo(core, key, text);
    return strtoul(text, 0, 0);
}

static inline void device_arm_features(struct device *d)
{
#if defined(__linux__)
    const unsigned long has = getauxval(AT_HWCAP);
#if defined(__aarch64__)
    const unsigned long has2 = getauxval(AT_HWCAP2);
    device_feature(d, (int)(has >> 1 & 1), "asimd");
    device_feature(d, (int)(has >> 10 & 1), "asimdhp");
    device_feature(d, (int)(has >> 20 & 1), "asimddp");
    device_feature(d, (int)(has >> 22 & 1), "sve");
    device_feature(d, (int)(has2 >> 13 & 1), "i8mm");
    device_feature(d, (int)(has2 >> 14 & 1), "bf16");
#else
    device_feature(d, (int)(has >> 12 & 1), "neon");
    device_feature(d, (int)(has >> 16 & 1), "vfpv4");
#endif
#else
    (void)d;
#endif
}

static inline void device_processor(struct device *d)
{
    device_arm_features(d);
#if defined(DEVICE_ARM_M)
    device_midr(d, *(volatile const uint32_t *)(uintptr_t)0xE000ED00u);
#elif defined(__linux__)
    char path[256], text[DEVICE_TEXT];
#if defined(__aarch64__)
    if (getauxval(AT_HWCAP) >> 11 & 1) { /* the kernel lets programs read it */
        unsigned long long midr;
        __asm__ volatile("mrs %0, midr_el1" : "=r"(midr));
        device_midr(d, midr);
        return;
    }
#endif
    snprintf(path, sizeof path, KERNEL_FILES "/sys/devices/system/cpu/cpu%d/regs/identification/midr_el1", d->core);
    device_file(path, text);
    if (text[0]) {
        device_midr(d, strtoull(text, 0, 0));
        return;
    }
    device_cpuinfo(d->core, "CPU implementer", text);
    if (text[0]) {
        device_midr(d, (unsigned long long)device_number(d->core, "CPU implementer") << 24
            | (unsigned long long)device_number(d->core, "CPU variant") << 20
            | (unsigned long long)device_number(d->core, "CPU part") << 4
            | (unsigned long long)device_number(d->core, "CPU revision"));
    }
#endif
}

static inline void device_contradiction(struct device *d)
{
    char text[DEVICE_TEXT];
    device_cpuinfo(d->core, "vendor_id", text);
    if (text[0]) {
        snprintf(d->kernel_says, DEVICE_TEXT, "%.40s", text);
        return;
    }
    device_file(KERNEL_FILES "/sys/devices/system/cpu/modalias", text);
    if (strncmp(text, "cpu:type:x86", 12) == 0) {
        snprintf(d->kernel_says, DEVICE_TEXT, "%.40s", text);
    }
}
#endif

#if !defined(DEVICE_X86) && !defined(DEVICE_ARM)
static inline void device_processor(struct device *d)
{
    static const char *const keys[] = { "model name", "cpu model", "uarch", "cpu" };
    for (size_t k = 0; k < sizeof keys / sizeof keys[0] && !d->name[0]; ++k) {
        device_cpuinfo(d->core, keys[k], d->name);
    }
}

static inline void device_contradiction(struct device *d)
{
    (void)d;
}
#endif

/* ---- How long simple things take ---- */

/* Time of one operation of a dependent chain: integer additions, float multiplications and
 * additions, conversions between both; and of a call with its return. For anything that translates
 * instructions, the first is free, and the others are function calls. */
struct device_times {
    double add, multiply, convert, call, mhz;
};

#define DEVICE_4(x) x x x x
#define DEVICE_16(x) DEVICE_4(x) DEVICE_4(x) DEVICE_4(x) DEVICE_4(x)
#define DEVICE_64(x) DEVICE_16(x) DEVICE_16(x) DEVICE_16(x) DEVICE_16(x)

#if defined(__SSE2__)
#define DEVICE_FLOAT "+x"
#define DEVICE_CONVERT "cvttps2dq %0, %0\n\tcvtdq2ps %0, %0"
#elif defined(__aarch64__)
#define DEVICE_FLOAT "+w"
#define DEVICE_CONVERT "fcvtzs %s0, %s0\n\tscvtf %s0, %s0"
#elif defined(__arm__) && defined(__ARM_FP) && (__ARM_FP & 4)
#define DEVICE_FLOAT "+t"
#define DEVICE_CONVERT "vcvt.s32.f32 %0, %0\n\tvcvt.f32.s32 %0, %0"
#endif

#if defined(DEVICE_ARM_M)
/* The system timer, at the processor's own clock, downwards from the largest number of 24 bits. */
static inline volatile uint32_t *device_timer(void)
{
    return (volatile uint32_t *)(uintptr_t)0xE000E010u;
}

static inline double device_now(void)
{
    return -(double)device_timer()[2];
}

static inline double device_spent(double from)
{
    const double spent = device_now() - from;
    return spent < 0 ? spent + 16777216.0 : spent;
}
#else
static inline double device_now(void)
{
    return seconds();
}

static inline double device_spent(double from)
{
    return 1e9 * (seconds() - from);
}
#endif

static inline double device_time_add(int count)
{
    uint32_t x = 1, y = 0x9e3779b9u, z = 0x7f4a7c15u;
    __asm__ volatile("" : "+r"(x), "+r"(y), "+r"(z));
    const double start = device_now();
    for (int k = 0; k < count; ++k) {
        DEVICE_64(x += y; __asm__ volatile("" : "+r"(x)); x ^= z; __asm__ volatile("" : "+r"(x));)
    }
    return device_spent(start) / (128.0 * count);
}

#if defined(DEVICE_FLOAT)
static inline double device_time_multiply(int count)
{
    float x = 1.5f, y = 0.5f, z = 1.0f;
    __asm__ volatile("" : DEVICE_FLOAT(x), DEVICE_FLOAT(y), DEVICE_FLOAT(z));
    const double start = device_now();
    for (int k = 0; k < count; ++k) {
        DEVICE_16(x *= y; __asm__ volatile("" : DEVICE_FLOAT(x)); x += z; __asm__ volatile("" : DEVICE_FLOAT(x));)
    }
    return device_spent(start) / (32.0 * count);
}

static inline double device_time_convert(int count)
{
    float x = 1.5f;
    const double start = device_now();
    for (int k = 0; k < count; ++k) {
        DEVICE_16(__asm__ volatile(DEVICE_CONVERT : DEVICE_FLOAT(x));)
    }
    return device_spent(start) / (32.0 * count);
}
#else
static inline double device_time_multiply(int count)
{
    (void)count;
    return 0; /* done by functions here, so it says nothing */
}

static inline double device_time_convert(int count)
{
    (void)count;
    return 0;
}
#endif

#if defined(__GNUC__)
__attribute__((noinline, unused))
#endif
static uint32_t device_callee(uint32_t x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

static inline double device_time_call(int count)
{
    uint32_t x = 1;
    const double start = device_now();
    for (int k = 0; k < count; ++k) {
        DEVICE_16(x = device_callee(x);)
    }
    __asm__ volatile("" : "+r"(x));
    return device_spent(start) / (16.0 * count);
}

static inline void device_least(double *best, double time)
{
    *best = *best <= 0 || time < *best ? time : *best;
}

/* About 20 us of each in turn: other work on the core takes longer turns, so the least of many
 * is the processor's own time. */
static inline void device_round(struct device_times *t)
{
    enum { COUNT = 160 };
    device_least(&t->add, device_time_add(COUNT));
    device_least(&t->multiply, device_time_multiply(COUNT));
    device_least(&t->convert, device_time_convert(COUNT));
    device_least(&t->call, device_time_call(COUNT));
}

#if defined(DEVICE_ARM_M)
/* The least is 0 if a chain ends before the timer counts. That is a finding, so it is reported. */
static inline struct device_times device_measure(void)
{
    volatile uint32_t *const timer = device_timer();
    const uint32_t control = timer[0], reload = timer[1];
    struct device_times t = { 0, 0, 0, 0, 0 };
    timer[1] = 0xffffff;
    timer[2] = 0;
    timer[0] = 5; /* on, no interrupt, the processor's clock */
    for (long k = 0; k < 1000000 && timer[2] == 0; ++k) { /* emulators start late */
    }
    if ((timer[0] & 5) == 5 && timer[2] != 0) {
        for (int r = 0; r < 20; ++r) {
            device_round(&t);
        }
    }
    timer[1] = reload;
    timer[2] = 0;
    timer[0] = control;
    const double begin = seconds();
    double chains = 0, spent = 0;
    for (; spent < 0.2 && chains < 1e5; spent = seconds() - begin, ++chains) {
        device_time_add(1000);
    }
    t.mhz = spent > 0 ? 128e-3 * chains / spent : 0;
    return t;
}
#else
/* An idle processor takes a while to reach its final clock. */
static inline struct device_times device_measure(void)
{
    struct device_times t = { 0, 0, 0, 0, 0 };
    const double begin = seconds();
    double best = 1e300, since = begin, now = begin;
    for (int r = 0; r < 100 || (now - since < 0.05 && now - begin < 0.5); ++r) {
        device_round(&t);
        now = seconds();
        if (t.add < 0.98 * best) {
            best = t.add;
            since = now;
        }
    }
    t.mhz = t.add > 0 ? 1e3 / t.add : 0;
    return t;
}
#endif

/* ---- The line ---- */

/* A member whose value is text, without characters that JSON does not allow. */
static inline void device_say(const char *key, const char *text)
{
    printf("\"%s\": \"", key);
    for (; *text; ++text) {
        if (isprint((unsigned char)*text) && *text != '"' && *text != '\\' && (unsigned char)*text < 127) {
            putchar(*text);
        }
    }
    printf("\", ");
}

static inline void device_say_system(void)
{
#if defined(__unix__)
    struct utsname u;
    if (uname(&u) == 0) {
        char text[DEVICE_TEXT];
        device_say("system", u.sysname);
        snprintf(text, sizeof text, "%.100s", u.release);
        device_say("release", text);
        snprintf(text, sizeof text, "%.50s", u.machine);
        device_say("machine", text);
        return;
    }
#endif
    device_say("system", "");
    device_say("release", "");
    device_say("machine", "");
}

/* Reports what this program runs on, and stays on one core. With `measured` it also reports how
 * fast that is, which takes about 0.1 s. */
static inline void print_device(int measured)
{
    static struct device d;
    struct device_times t = { 0, 0, 0, 0, 0 };
    d.core = stay_on_one_core();
    device_processor(&d);
    device_contradiction(&d);
    device_file(KERNEL_FILES "/proc/self/comm", d.process);
    device_file(KERNEL_FILES "/proc/sys/kernel/random/boot_id", d.boot);
    if (measured) {
        t = device_measure();
    }
#if defined(DEVICE_X86)
    printf("{\"device\": {\"arch\": \"x86\", ");
#elif defined(DEVICE_ARM)
    printf("{\"device\": {\"arch\": \"arm\", ");
#else
    printf("{\"device\": {\"arch\": \"other\", ");
#endif
    device_say("vendor", d.vendor);
    printf("\"family\": %u, \"model\": %u, \"revision\": %u, ", d.family, d.model, d.revision);
    device_say("name", d.name);
    device_say("features", d.features);
    device_say("hypervisor", d.hypervisor);
    device_say_system();
    device_say("process", d.process);
    device_say("kernel_says", d.kernel_says);
    device_say("boot", d.boot);
#if defined(DEVICE_ARM_M)
    device_say("unit", "cycle");
#else
    device_say("unit", "ns");
#endif
    printf("\"core\": %d, \"add\": %.4f, \"multiply\": %.4f, \"convert\": %.4f, \"call\": %.4f, \"mhz\": %.0f}}\n",
           d.core, t.add, t.multiply, t.convert, t.call, t.mhz);
    fflush(stdout);
}

#endif
