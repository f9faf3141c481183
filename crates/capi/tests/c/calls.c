/* Each call that synchronizes is counted as what it is, by number or by address, whatever comes of it. */
#include "check.h"

static void nothing(void)
{
}

int main(int argc, char **argv)
{
    struct timespec past = {0, 0};
    struct mg_stats stats;
    uint32_t id;
    int *word;

    OK(mg_init(&argc, &argv));
    id = (uint32_t)mg_node();
    word = MUST(mg_calloc(1, sizeof *word));

    OK(mg_rwlock_rdlock(id));
    OK(mg_rwlock_tryrdlock_at(word));
    CODE(mg_rwlock_trywrlock(id), MG_EBUSY);
    OK(mg_rwlock_unlock(id));
    OK(mg_rwlock_unlock_at(word));

    OK(mg_sem_post(id, 7));
    OK(mg_sem_wait(id));
    CODE(mg_sem_trywait_at(word), MG_EBUSY);
    CODE(mg_sem_timedwait(id + 2, &past), MG_ETIMEDOUT);

    OK(mg_lock(id));
    OK(mg_cond_signal(id));
    CODE(mg_cond_timedwait(id, id, &past), MG_ETIMEDOUT);
    CODE(mg_trylock(id), MG_EBUSY);
    OK(mg_unlock(id));
    OK(mg_cond_broadcast_at(word));
    OK(mg_once(id, nothing));

    stats = stats_now();
    CHECK(stats.rwlock_reads == 2 && stats.rwlock_writes == 1);
    CHECK(stats.sem_posts == 1 && stats.sem_waits == 3);
    CHECK(stats.cond_waits == 1 && stats.cond_signals == 2);
    CHECK(stats.locks == 2);
    return mg_finalize();
}
