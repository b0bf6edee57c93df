/* What subnormals.h does to products, as a line of JSON. */
#include <stdio.h>
#include <string.h>

#include "cannery/subnormals.h"
#include "cannery/subnormals.h"

/* The smallest normal number, and one that is smaller. */
static volatile float smallest = 1.17549435e-38f, subnormal = 1e-40f, half = 0.5f, large = 1e20f;

typedef struct products {
    int result, operand; /* whether they are zero */
} products;

/* Compilers may move comparisons of floats past a change of mode, but no volatile stores. */
static int is_zero(float x)
{
    volatile float stored = x;
    const float kept = stored;
    uint32_t bits;
    memcpy(&bits, &kept, sizeof bits);
    return bits == 0;
}

static products multiply(void)
{
    products p;
    p.result = is_zero(smallest * half);
    p.operand = is_zero(subnormal * large);
    return p;
}

int main(void)
{
    const products before = multiply();
    const uint64_t mode = cannery_flush_subnormals();
    const products flushed = multiply();
    const uint64_t again = cannery_flush_subnormals();
    cannery_restore_subnormals(again);
    const products still = multiply();
    cannery_restore_subnormals(mode);
    const products after = multiply();
    printf("{\"before\": [%d, %d], \"flushed\": [%d, %d], \"still\": [%d, %d], \"after\": [%d, %d], "
           "\"mode\": %d}\n",
           before.result, before.operand, flushed.result, flushed.operand, still.result,
           still.operand, after.result, after.operand, CANNERY_FLUSH_BITS != 0);
    return 0;
}
