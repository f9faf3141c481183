/*
 * contention.h - how evenly something contended was had: how often by each worker, and after what waits.
 * A worker counts in private memory and reports at the end; node 0 prints by node.
 */
#ifndef APPS_CONTENTION_H
#define APPS_CONTENTION_H

#include "app.h"

/* Quarters of octaves from a quarter of a microsecond on: the last bucket begins at 13 s. */
enum { WAIT_BUCKETS = 104 };

struct share {
    uint64_t had;
    uint64_t sum; /* the application's own */
    double longest_us;
    uint32_t waits[WAIT_BUCKETS];
};

/* From main on every node, before shm_run. */
void shares_begin(void);
/* One more was had, after this wait; us. */
void share_add(struct share *mine, double waited_us);
/* Each worker once, at its end, before the last barrier. */
void share_report(int worker, const struct share *mine);
/* Behind that barrier: what a worker reported. */
const struct share *share_of(int worker);
/*
 * On node 0, behind it too: a line a node, and the figures share_min (of a node, percent; of a
 * worker where there is one node), wait_p99_us and wait_max_us.
 */
void shares_print(const char *what);

#endif
