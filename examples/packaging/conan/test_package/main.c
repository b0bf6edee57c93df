/* The network of the package gives the stored result. */
#include "ball.h"

#include <stdio.h>

static unsigned char workspace[BALL_WORKSPACE_BYTES] __attribute__((aligned(64)));

int main(void)
{
    const int wrong = ball_selftest(workspace);
    puts(wrong ? "wrong" : "right");
    return wrong;
}
