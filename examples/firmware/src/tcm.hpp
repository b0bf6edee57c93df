#ifndef TCM_HPP
#define TCM_HPP

// Copies the network's code from the flash to ITCM, where it runs: call it before anything else.
void load_tcm();

#endif
