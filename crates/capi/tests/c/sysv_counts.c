/* A known number of faults and of calls on each kind of object. */
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#define PAGES 8

static int operate(int set, unsigned short number, short change)
{
    struct sembuf operation = {number, change, 0};

    return semop(set, &operation, 1);
}

int main(void)
{
    /* Not one behind the other: neighbours would come with a fault. */
    static const int order[PAGES] = {0, 4, 2, 6, 1, 5, 3, 7};
    int rank = atoi(getenv("MULTIGRAIN_RANK"));
    int segment, set, queue;
    volatile long *at;
    struct {
        long kind, value;
    } message = {1, 2};

    /* Node 0 makes all of them, the set last. */
    while (rank == 1 && semget(6, 2, 0) < 0)
        usleep(1000);
    segment = shmget(5, PAGES * 4096, IPC_CREAT | 0600);
    queue = msgget(7, IPC_CREAT | 0600);
    set = semget(6, 2, IPC_CREAT | 0600);
    at = shmat(segment, NULL, 0);
    if (segment < 0 || set < 0 || queue < 0 || at == (void *)-1)
        return 1;
    if (rank == 0) {
        sem_t *named = sem_open("/counted", O_CREAT, 0600, 0);

        for (int page = 0; page < PAGES; page++)
            at[order[page] * 512] = page;
        if (named == SEM_FAILED || sem_post(named) + sem_post(named) + sem_post(named) != 0 || sem_wait(named) != 0)
            return 1;
        sem_unlink("/counted");
        if (msgsnd(queue, &message, sizeof message.value, 0) < 0 ||
            msgrcv(queue, &message, sizeof message.value, 0, 0) < 0)
            return 1;
        return operate(set, 0, 1) < 0 || operate(set, 1, -1) < 0;
    }
    if (operate(set, 0, -1) < 0)
        return 1;
    for (int page = 0; page < PAGES; page++) {
        if (at[order[page] * 512] != page)
            return 1;
        at[order[page] * 512]++;
    }
    return operate(set, 1, 1) < 0;
}
