/* Vector table and reset handler of QEMU's board mps2-an500 (Cortex-M7): switches the FPU on, then
 * enters newlib's start-up code. Faults end the emulation with an error through semihosting. */
    .syntax unified
    .thumb

    .section .vectors, "a"
    .word __stack_top
    .word reset_handler
    .rept 14
    .word fault_handler
    .endr

    .section .text.reset_handler, "ax"
    .global reset_handler
    .thumb_func
    .type reset_handler, %function
reset_handler:
    ldr r0, =0xE000ED88          /* CPACR: full access to coprocessors 10 and 11 */
    ldr r1, [r0]
    orr r1, r1, #0x00F00000
    str r1, [r0]
    dsb
    isb
    b _start

    .thumb_func
    .type fault_handler, %function
fault_handler:
    ldr r1, =0x20023             /* ADP_Stopped_RunTimeErrorUnknown */
    movs r0, #0x18               /* SYS_EXIT */
    bkpt 0xAB
    b fault_handler
