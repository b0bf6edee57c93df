/* Says what device.h reads in files of the kernel: of a file, of keys of a core in /proc/cpuinfo.
 *
 *   device_files FILE [CORE KEY]...
 */
#define _GNU_SOURCE
#include "device.h"

int main(int argc, char **argv)
{
    char text[DEVICE_TEXT];
    memset(text, 'x', sizeof text);
    device_file(argv[1], text);
    printf("%s\n", text);
    for (int k = 2; k + 1 < argc; k += 2) {
        memset(text, 'x', sizeof text);
        device_cpuinfo(atoi(argv[k]), argv[k + 1], text);
        printf("%s\n", text);
    }
    (void)print_device;
    return 0;
}
