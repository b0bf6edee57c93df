/* A product of two matrices by oneDNN, driven line by line, see `serving.h`.
 *
 *   products LIBRARY FORM M N K INPUTS OUTPUTS
 *
 * INPUTS holds A (M x K) and B (K x N), OUTPUTS gets C = A B, all by rows. FORM is `sgemm`, which
 * takes both as they are, or `matmul`, a primitive made for the shape that packs B beforehand. The
 * library is opened by its path and its few functions declared here, so that no header is needed;
 * numbers of enumerations are those of oneDNN 3.
 */
#define _GNU_SOURCE
#include "serving.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

enum {
    CPU = 1, IN_ORDER = 1, F32 = 3, ANY = 1, ROWS = 3, WEIGHTS_OF_PRIMITIVE = 131,
    SOURCE = 1, TARGET = 17, WEIGHTS = 33
};

typedef void *handle;
typedef struct {
    int which;
    handle memory;
} argument;

static handle library;
static int64_t m, n, k;
static float *a, *b, *c;

/* The address of a function, as what `type` says. */
#define FUNCTION(type, name) ((type)(intptr_t)find(#name))

static void *find(const char *name)
{
    void *const found = dlsym(library, name);
    if (!found) {
        fail(name);
    }
    return found;
}

static void must(int status, const char *what)
{
    if (status) {
        fail(what);
    }
}

/* sgemm */

typedef int (*sgemm_function)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t,
                              const float *, int64_t, float, float *, int64_t);
static sgemm_function sgemm;

static void run_sgemm(long count)
{
    for (long i = 0; i < count; ++i) {
        sgemm('N', 'N', m, n, k, 1.0f, a, k, b, n, 0.0f, c, n);
    }
}

/* matmul */

typedef int (*execute_function)(handle, handle, int, const argument *);
typedef int (*wait_function)(handle);
static execute_function execute;
static wait_function wait_for;
static handle engine, stream, product;
static argument arguments[3];

static handle description(int64_t rows, int64_t columns, int order)
{
    typedef int (*create)(handle *, int, const int64_t *, int, int);
    const int64_t sizes[2] = {rows, columns};
    handle found;
    must(FUNCTION(create, dnnl_memory_desc_create_with_tag)(&found, 2, sizes, F32, order),
         "no description");
    return found;
}

static handle memory(handle described, float *place)
{
    typedef int (*create)(handle *, handle, handle, void *);
    handle found;
    must(FUNCTION(create, dnnl_memory_create)(&found, described, engine, place), "no memory");
    return found;
}

static handle primitive(handle described)
{
    typedef int (*create)(handle *, handle);
    handle found;
    must(FUNCTION(create, dnnl_primitive_create)(&found, described), "no primitive");
    return found;
}

/* B as the product wants it; `wanted` says how. */
static handle packed(handle wanted, handle rows)
{
    typedef size_t (*size)(handle);
    typedef int (*create)(handle *, handle, handle, handle, handle, handle);
    float *const place = (float *)get(FUNCTION(size, dnnl_memory_desc_get_size)(wanted), 64);
    const handle found = memory(wanted, place);
    handle described;
    must(FUNCTION(create, dnnl_reorder_primitive_desc_create)(&described, rows, engine, wanted,
                                                              engine, NULL),
         "no reorder");
    const argument both[2] = {{SOURCE, memory(rows, b)}, {TARGET, found}};
    must(execute(primitive(described), stream, 2, both), "reorder failed");
    must(wait_for(stream), "reorder failed");
    return found;
}

static void make_matmul(void)
{
    typedef int (*engine_create)(handle *, int, size_t);
    typedef int (*stream_create)(handle *, handle, unsigned);
    typedef int (*create)(handle *, handle, handle, handle, handle, handle, handle);
    typedef handle (*query)(handle, int, int);
    handle described;
    execute = FUNCTION(execute_function, dnnl_primitive_execute);
    wait_for = FUNCTION(wait_function, dnnl_stream_wait);
    must(FUNCTION(engine_create, dnnl_engine_create)(&engine, CPU, 0), "no engine");
    must(FUNCTION(stream_create, dnnl_stream_create)(&stream, engine, IN_ORDER), "no stream");
    const handle left = description(m, k, ROWS), out = description(m, n, ROWS);
    must(FUNCTION(create, dnnl_matmul_primitive_desc_create)(
             &described, engine, left, description(k, n, ANY), NULL, out, NULL),
         "no product");
    const handle wanted =
        FUNCTION(query, dnnl_primitive_desc_query_md)(described, WEIGHTS_OF_PRIMITIVE, 0);
    product = primitive(described);
    arguments[0] = (argument){SOURCE, memory(left, a)};
    arguments[1] = (argument){WEIGHTS, packed(wanted, description(k, n, ROWS))};
    arguments[2] = (argument){TARGET, memory(out, c)};
}

static void run_matmul(long count)
{
    for (long i = 0; i < count; ++i) {
        execute(product, stream, 3, arguments);
        wait_for(stream);
    }
}

static void read_inputs(const char *path)
{
    const size_t left = (size_t)(m * k), right = (size_t)(k * n);
    FILE *const file = fopen(path, "rb");
    if (!file) {
        fail("no inputs");
    }
    a = (float *)get(left * sizeof *a, 64);
    b = (float *)get(right * sizeof *b, 64);
    c = (float *)get((size_t)(m * n) * sizeof *c, 64);
    if (fread(a, sizeof *a, left, file) != left || fread(b, sizeof *b, right, file) != right) {
        fail("inputs end early");
    }
    fclose(file);
}

static void write_output(const char *path)
{
    FILE *const file = fopen(path, "wb");
    if (!file) {
        fail("outputs cannot be written");
    }
    fwrite(c, sizeof *c, (size_t)(m * n), file);
    if (fclose(file)) {
        fail("outputs cannot be written");
    }
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fail("a library, a form, three sizes and two files are needed");
    }
    library = dlopen(argv[1], RTLD_NOW);
    if (!library) {
        fail(dlerror());
    }
    m = atoll(argv[3]), n = atoll(argv[4]), k = atoll(argv[5]);
    read_inputs(argv[6]);
    void (*run)(long) = run_sgemm;
    if (strcmp(argv[2], "matmul")) {
        sgemm = FUNCTION(sgemm_function, dnnl_sgemm);
    } else {
        make_matmul();
        run = run_matmul;
    }
    run(1);
    write_output(argv[7]);
    serve(run);
    return 0;
}
