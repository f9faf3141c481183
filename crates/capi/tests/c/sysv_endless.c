/* Writes a System V segment for ever, with two children. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

int main(void)
{
    int id = shmget(5, 64 * 4096, IPC_CREAT | 0600);
    volatile long *at = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

    if (at == (void *)-1) {
        perror("shmat");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    if (fork() < 0 || fork() < 0)
        return 1;
    for (;;)
        __atomic_fetch_add(&at[rand() % 64 * 512], 1, __ATOMIC_SEQ_CST);
}
