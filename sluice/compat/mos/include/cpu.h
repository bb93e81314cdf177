/* Helpers that programs for mOS include: processors. */
#ifndef CPU_H
#define CPU_H

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

int GetNumCPUs(void);
int CoreAffinitize(int cpu);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
