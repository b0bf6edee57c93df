#include "tcm.hpp"

#include <stddef.h>
#include <string.h>

// Of tcm.ld.
extern "C" char __itcm_start[], __itcm_end[], __itcm_load[];

void load_tcm()
{
    memcpy(__itcm_start, __itcm_load, static_cast<size_t>(__itcm_end - __itcm_start));
    __asm__ volatile("dsb\n\tisb" ::: "memory"); // no instruction from before is executed
}
