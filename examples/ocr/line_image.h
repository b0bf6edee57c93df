/* Images of text lines: 25 rows of bytes, 255 is white. The network takes them column by column. */

#ifndef LINE_IMAGE_H
#define LINE_IMAGE_H

#include <stdint.h>

enum { LINE_ROWS = 25 };

/* Reads a binary PGM of 25 rows and at most `longest` columns into columns[x * 25 + y]. Returns the
 * number of columns, 0 if the file cannot be read or is something else. */
int32_t line_image_read(const char *path, int32_t longest, uint8_t *columns);

#endif
