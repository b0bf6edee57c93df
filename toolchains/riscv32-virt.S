/* What programs need on QEMU's board `virt` beside picolibc's start-up code, where `main` is linked
 * as `--wrap=main`. Traps end the emulation with an error through semihosting. picolibc's arguments
 * begin with a name of its own, before the name of the program: that goes. */
    .option arch, +zicsr

    .section .text.__wrap_main, "ax"
    .global __wrap_main
    .type __wrap_main, %function
__wrap_main:
    la t0, trap_handler
    csrw mtvec, t0
    addi a0, a0, -1
    addi a1, a1, 4
    tail __real_main

    .section .text.trap_handler, "ax"
    .balign 4
    .option norvc
    .type trap_handler, %function
trap_handler:
    li a0, 0x18                  /* SYS_EXIT */
    li a1, 0x20023               /* ADP_Stopped_RunTimeErrorUnknown */
    .balign 16                   /* the three instructions must be on one page */
    slli x0, x0, 0x1f
    ebreak
    srai x0, x0, 7
    j trap_handler
