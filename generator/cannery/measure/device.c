/* Reports the machine on which programs of this target run. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "device.h"

int main(void)
{
    print_device(1);
    return 0;
}
