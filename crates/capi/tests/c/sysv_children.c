/*
 * Children of fork that read a segment whose words are 1 from its beginning on, while a process of each site writes 1 again and again, so
 * that pages go to and fro. Who finds something else makes the FILE.
 *
 *   sysv_children FILE           children that read once, ever new ones
 *   sysv_children FILE CHILDREN  so many that read on
 *
 * Until it is killed.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 64, WORDS = PAGES * 512, PAGE = 512, PARENTS = 8 };

static void writes(volatile long *words, int rank)
{
    for (int round = rank;; round++) {
        for (int at = 0; at < WORDS; at += PAGE)
            words[at + round % PAGE] = 1;
        usleep(200);
    }
}

static void reads(const volatile long *words, const char *wrong)
{
    for (int at = 0; at < WORDS; at += PAGE)
        if (words[at] != 1)
            close(open(wrong, O_CREAT | O_WRONLY, 0600));
}

static void forks(const volatile long *words, const char *wrong)
{
    for (;;) {
        if (fork() == 0) {
            reads(words, wrong);
            _exit(0);
        }
        wait(NULL);
    }
}

int main(int argc, char **argv)
{
    int rank = atoi(getenv("MULTIGRAIN_RANK")), nodes = atoi(getenv("MULTIGRAIN_NODES"));
    int children = argc > 2 ? atoi(argv[2]) : 0;
    int segment = shmget(1, WORDS * sizeof(long), IPC_CREAT | 0600), set = semget(1, 1, IPC_CREAT | 0600);
    volatile long *words = shmat(segment, NULL, 0);
    struct sembuf begin = { 0, (short)nodes, 0 }, wait_for_it = { 0, -1, 0 };

    if (words == (void *)-1)
        return 1;
    if (rank == 0) {
        for (int at = 0; at < WORDS; at++)
            words[at] = 1;
        if (semop(set, &begin, 1) != 0)
            return 2;
    }
    if (semop(set, &wait_for_it, 1) != 0)
        return 3;
    printf("ready\n");
    fflush(stdout);
    if (fork() == 0)
        writes(words, rank);
    for (int child = 0; child < children; child++)
        if (fork() == 0)
            for (;;) {
                reads(words, argv[1]);
                usleep(20 * 1000);
            }
    for (int parent = 0; children == 0 && parent < PARENTS; parent++)
        if (fork() == 0)
            forks(words, argv[1]);
    pause();
}
