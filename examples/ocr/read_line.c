/* Prints the text of images of lines, one below the other.
 *
 *     read_line image.pgm...
 *
 * Exit code 0: all were read; 2: one is no grey image of 25 rows, or is too long. */

#include "cannery/ctc.h"
#include "line_image.h"
#include "ocr.h"
#include "symbols.h"

#include <stdio.h>

static uint8_t columns[OCR_COLUMNS_LEN];
static float symbols[OCR_SYMBOLS_LEN];
static int32_t labels[OCR_MAX_LENGTH];

int main(int argc, char **argv)
{
    for (int k = 1; k < argc; ++k) {
        const int32_t length = line_image_read(argv[k], OCR_MAX_LENGTH, columns);
        int32_t count;
        if (length == 0) {
            fprintf(stderr, "%s: cannot be read, or is no grey image of 25 rows and at most %d columns\n",
                argv[k], OCR_MAX_LENGTH);
            return 2;
        }
        ocr_run(columns, length, symbols);
        count = cannery_ctc_best_path(symbols, length, SYMBOLS, BLANK, labels, OCR_MAX_LENGTH);
        for (int32_t i = 0; i < count; ++i) {
            fputs(characters[labels[i]], stdout);
        }
        putchar('\n');
    }
    return 0;
}
