/* leftover FILE [MS] - says so when it is ready, and ends after MS while its children go on, which write FILE if a page or a semaphore
   of theirs is not what it was. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

enum { PAGES = 64, WORDS = 512 };

static void go_on(volatile long *at, int sem, const char *file)
{
    for (long page = 0;; page = (page + 7) % PAGES) {
        struct sembuf up = {0, 1, 0}, down = {0, -1, 0};

        if (at[page * WORDS] != 42 || semop(sem, &up, 1) < 0 || semop(sem, &down, 1) < 0) {
            open(file, O_CREAT | O_WRONLY, 0600);
            _exit(1);
        }
        at[page * WORDS] = 42;
    }
}

int main(int argc, char **argv)
{
    int shm = shmget(9, PAGES * 4096, IPC_CREAT | 0600), sem = semget(9, 1, IPC_CREAT | 0600);
    volatile long *at = shmat(shm, NULL, 0);

    if (argc < 2 || sem < 0 || at == (void *)-1)
        return 1;
    for (long page = 0; page < PAGES; page++)
        at[page * WORDS] = 42;
    for (int child = 0; child < 3; child++)
        if (fork() == 0)
            go_on(at, sem, argv[1]);
    puts("ready");
    fflush(stdout);
    usleep(1000 * (argc > 2 ? (useconds_t)atoi(argv[2]) : 100));
    return 0;
}
