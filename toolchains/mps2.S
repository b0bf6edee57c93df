/* Vector table and reset handler of QEMU's boards mps2 and mps3: switches the FPU on, where there is
 * one, then enters newlib's start-up code. Faults end the emulation with an error through
 * semihosting. Only instructions that every Cortex-M has. */
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
    movs r2, #0xF
    lsls r2, r2, #20
    orrs r1, r1, r2
    str r1, [r0]
    dsb
    isb
    bl _start

    .thumb_func
    .type fault_handler, %function
fault_handler:
    ldr r1, =0x20023             /* ADP_Stopped_RunTimeErrorUnknown */
    movs r0, #0x18               /* SYS_EXIT */
    bkpt 0xAB
    b fault_handler

/* newlib's heap: what lies between the program's data and the 256 KB left for the stack. QEMU's
 * semihosting names another piece of memory for it, which is smaller. */
    .global _sbrk
    .thumb_func
    .type _sbrk, %function
_sbrk:
    ldr r1, =heap_break
    ldr r2, [r1]
    cmp r2, #0
    bne 1f
    ldr r2, =end
1:  adds r0, r2, r0
    ldr r3, =__heap_end
    cmp r0, r3
    bhi 2f
    str r0, [r1]
    mov r0, r2
    bx lr
2:  movs r0, #0
    mvns r0, r0
    bx lr

    .section .bss.heap_break, "aw", %nobits
    .balign 4
heap_break:
    .space 4
