/* Both sites of a job write words of one page for some time, each as often as it may. */
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

enum { MS = 400 };

static long now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(void)
{
    int rank = atoi(getenv("MULTIGRAIN_RANK")), nodes = atoi(getenv("MULTIGRAIN_NODES"));
    int segment = shmget(1, 4096, IPC_CREAT | 0600), set = semget(1, 1, IPC_CREAT | 0600);
    struct sembuf here = {0, 1, 0}, all = {0, (short)-nodes, 0}, again = {0, (short)nodes, 0};
    volatile long *words = shmat(segment, NULL, 0);

    if (words == (void *)-1 || semop(set, &here, 1) != 0 || semop(set, &all, 1) != 0 || semop(set, &again, 1) != 0)
        return 1;
    for (long end = now_ms() + MS; now_ms() < end;)
        words[rank]++;
    return 0;
}
