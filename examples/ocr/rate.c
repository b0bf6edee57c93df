/* How many lines per second are read, with one thread and with several.
 *
 *     rate threads seconds image.pgm...
 *
 * prints for one thread, then for all: threads, lines per second, and the joules per line that the
 * processor's energy counter tells (RAPL; -1 where there is none or it may not be read). Lines are
 * divided up among the threads by ocr_run_many_parallel; decoding is part of the time, reading
 * files is not.
 *
 *     rate inside threads seconds image.pgm...
 *
 * prints the same for one line after the other, each by all threads (ocr_run_parallel). */

#define _POSIX_C_SOURCE 200809L

#include "cannery/ctc.h"
#include "cannery/pthread_pool.h"
#include "line_image.h"
#include "ocr.h"
#include "symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 512 };

/* What all threads may read, and where each writes. */
typedef struct {
    int32_t count;
    int32_t lengths[MOST];
    uint8_t columns[MOST * (size_t)OCR_COLUMNS_LEN];
    float symbols[MOST * (size_t)OCR_SYMBOLS_LEN];
} lines;

static lines all;
static cannery_pthread_pool threads;
static unsigned char workspace[OCR_MANY_PARALLEL_WORKSPACE_BYTES(CANNERY_POOL_MAX_THREADS)]
    __attribute__((aligned(OCR_WORKSPACE_ALIGN)));

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A number that a file holds, -1 if it cannot be read. */
static double number_in(const char *path)
{
    FILE *file = fopen(path, "r");
    double value = -1;
    if (file) {
        if (fscanf(file, "%lf", &value) != 1) {
            value = -1;
        }
        fclose(file);
    }
    return value;
}

#define RAPL "/sys/class/powercap/intel-rapl:0/"

/* Joules between two readings of the counter, which begins again at some point. */
static double joules_between(double before, double after)
{
    const double range = number_in(RAPL "max_energy_range_uj");
    if (before < 0 || after < 0 || (after < before && range < 0)) {
        return -1;
    }
    return (after - before + (after < before ? range : 0)) * 1e-6;
}

/* Decodes one share of the lines; there are as many shares as threads. */
static void decode(void *data, int32_t share)
{
    static int32_t labels[MOST][OCR_MAX_LENGTH];
    const cannery_pool *pool = (const cannery_pool *)data;
    const int32_t last = cannery_first_part(all.count, share + 1, pool->threads);
    for (int32_t k = cannery_first_part(all.count, share, pool->threads); k < last; ++k) {
        (void)cannery_ctc_best_path(all.symbols + (size_t)k * OCR_SYMBOLS_LEN, all.lengths[k], SYMBOLS,
            BLANK, labels[k], OCR_MAX_LENGTH);
    }
}

static void read_all(cannery_pool *pool)
{
    ocr_run_many_parallel(workspace, pool, all.count, all.columns, all.lengths, all.symbols);
    pool->run(pool->context, pool->threads, decode, pool);
}

static void read_each(cannery_pool *pool)
{
    for (int32_t k = 0; k < all.count; ++k) {
        ocr_run_parallel(workspace, pool, all.columns + (size_t)k * OCR_COLUMNS_LEN, all.lengths[k],
            all.symbols + (size_t)k * OCR_SYMBOLS_LEN);
    }
    pool->run(pool->context, pool->threads, decode, pool);
}

/* A pool of one thread. */
static void alone(void *context, int32_t count, cannery_task task, void *data)
{
    (void)context;
    for (int32_t k = 0; k < count; ++k) {
        task(data, k);
    }
}

static void measure(void (*read)(cannery_pool *), cannery_pool *pool, double seconds)
{
    double start, end, before, joules;
    long rounds = 0;
    read(pool);
    before = number_in(RAPL "energy_uj");
    start = seconds_now();
    do {
        read(pool);
        ++rounds;
        end = seconds_now();
    } while (end - start < seconds);
    joules = joules_between(before, number_in(RAPL "energy_uj"));
    printf("%d %.6g %.6g\n", (int)pool->threads, (double)rounds * all.count / (end - start),
        joules < 0 ? -1.0 : joules / ((double)rounds * all.count));
}

int main(int argc, char **argv)
{
    const int inside = argc > 1 && strcmp(argv[1], "inside") == 0;
    char **const words = argv + inside;
    const int given = argc - inside;
    const int count = given > 1 ? atoi(words[1]) : 0;
    const double seconds = given > 2 ? atof(words[2]) : 0;
    cannery_pool one = { alone, NULL, 1 }, pool;
    if (given < 4 || given - 3 > MOST || count < 1) {
        fprintf(stderr, "usage: rate [inside] threads seconds image.pgm... (at most %d)\n", MOST);
        return 2;
    }
    for (; all.count < given - 3; ++all.count) {
        uint8_t *columns = all.columns + (size_t)all.count * OCR_COLUMNS_LEN;
        all.lengths[all.count] = line_image_read(words[3 + all.count], OCR_MAX_LENGTH, columns);
        if (all.lengths[all.count] == 0) {
            fprintf(stderr, "%s: cannot be read\n", words[3 + all.count]);
            return 2;
        }
    }
    if (cannery_pthread_pool_start(&threads, count, &pool) != 0) {
        fprintf(stderr, "threads cannot be started\n");
        return 2;
    }
    if (inside) {
        measure(read_each, &pool, seconds);
    } else {
        measure(read_all, &one, seconds);
        if (count > 1) {
            measure(read_all, &pool, seconds);
        }
    }
    cannery_pthread_pool_stop(&threads);
    return 0;
}
