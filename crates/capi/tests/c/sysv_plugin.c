/* A library that takes and gives semaphores: a plugin of sysv_plugs.c. */
#include <sys/ipc.h>
#include <sys/sem.h>

int operate(int key, int change);

int operate(int key, int change)
{
    struct sembuf operation = {0, (short)change, 0};
    int set = semget(key, 1, IPC_CREAT | 0600);

    return set < 0 ? -1 : semop(set, &operation, 1);
}
