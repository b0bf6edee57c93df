"""What compilers make of kernels: disassembly, loops, instruction mix, estimated cycles."""
