/* Node 1 reads so many pages that node 0 has written ("fetches"), or operates so often on a semaphore ("operations"). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>

enum { PAGE = 4096, MOST = 1024, KEY = 0x4321 };

static int set;

static void operate(unsigned short number, short change)
{
    struct sembuf operation = {number, change, 0};
    if (semop(set, &operation, 1) != 0) {
        perror("semop");
        exit(1);
    }
}

/* No two are neighbours: a scan would get several at a time. */
static void fetch(const char *segment, int count)
{
    for (int i = 0; i < count; i++) {
        if (segment[i * 37 % MOST * PAGE] != 7) {
            fprintf(stderr, "page %d has other bytes\n", i * 37 % MOST);
            exit(1);
        }
    }
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 0;
    int id = shmget(KEY, MOST * PAGE, IPC_CREAT | 0600);
    set = semget(KEY, 3, IPC_CREAT | 0600);
    char *segment = shmat(id, NULL, 0);
    if (set < 0 || segment == (void *)-1)
        return 1;
    if (strcmp(getenv("MULTIGRAIN_RANK"), "0") == 0) {
        for (int i = 0; i < MOST; i++)
            segment[i * PAGE] = 7;
        operate(0, 1);
        operate(1, -1);
        return 0;
    }
    operate(0, -1);
    if (strcmp(argv[1], "fetches") == 0)
        fetch(segment, count);
    else
        for (int i = 0; i < count; i++)
            operate(2, 1);
    operate(1, 1);
    return 0;
}
