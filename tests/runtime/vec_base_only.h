/* The vocabulary as vec_base.h makes it where a family has no words of its own: four lanes and
 * eight. */
#include "cannery/vec_types.h"

#define CANNERY_HAS_F32X4 1
#define CANNERY_HAS_F32X8 1
#define CANNERY_PAIRS_APART 1

CANNERY_VECTOR_TYPES(4)
#define CANNERY_LANES 4
#include "cannery/vec_base.h"
#undef CANNERY_LANES

CANNERY_VECTOR_TYPES(8)
#define CANNERY_LANES 8
#include "cannery/vec_base.h"
#undef CANNERY_LANES
