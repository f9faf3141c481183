/* A thread refused at a barrier has not come: two others pass it, and the refused one is not woken. */
#include "check.h"

#define BARRIER 2 /* managed by node 0 */

static int comes; /* the thread that comes, once it has a number */

static void *come(void *arg)
{
    (void)arg;
    __atomic_store_n(&comes, own_thread(), __ATOMIC_SEQ_CST);
    return (void *)(intptr_t)mg_barrier(BARRIER, 2);
}

int main(int argc, char **argv)
{
    mg_thread first, second;
    void *result;

    OK(mg_init(&argc, &argv));
    OK(mg_thread_create(&first, 0, come, NULL));
    while (stats_now().barriers == 0)
        usleep(1000);
    wait_asleep(__atomic_load_n(&comes, __ATOMIC_SEQ_CST));
    CODE(mg_barrier(BARRIER, 3), MG_EPERM);
    OK(mg_thread_create(&second, 0, come, NULL));
    OK(mg_thread_join(first, &result));
    CHECK((intptr_t)result == MG_OK);
    OK(mg_thread_join(second, &result));
    CHECK((intptr_t)result == MG_OK);
    OK(mg_finalize());
    return 0;
}
