/* Threads for a network called from Python: the pool of pthread_pool.h, in the caller's memory. */
#include "cannery/pthread_pool.h"

typedef struct {
    cannery_pool pool; /* first, so that a pointer to the whole is one to the pool */
    cannery_pthread_pool threads;
} cannery_python_threads;

size_t cannery_python_threads_bytes(void);
int cannery_python_threads_start(cannery_python_threads *memory, int32_t threads);
void cannery_python_threads_stop(cannery_python_threads *memory);

size_t cannery_python_threads_bytes(void)
{
    return sizeof(cannery_python_threads);
}

int cannery_python_threads_start(cannery_python_threads *memory, int32_t threads)
{
    return cannery_pthread_pool_start(&memory->threads, threads, &memory->pool);
}

void cannery_python_threads_stop(cannery_python_threads *memory)
{
    cannery_pthread_pool_stop(&memory->threads);
}
