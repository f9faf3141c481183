/*
 * What a program does to its process group, its environment and its descriptors leaves its site alone: signals to all of the group, a
 * cleared environment, and a child that has its very descriptors.
 */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t got;

static void note(int signal)
{
    got = signal;
}

static int ends_well(pid_t child)
{
    int status = -1;

    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static int calls(int set)
{
    struct sembuf up = {0, 1, 0}, down = {0, -1, 0};

    return semop(set, &up, 1) == 0 && semop(set, &down, 1) == 0;
}

int main(void)
{
    const int signals[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGINT, SIGQUIT, SIGRTMIN + 3};
    int segment = shmget(IPC_PRIVATE, 4096, 0600), set = semget(IPC_PRIVATE, 1, 0600);
    volatile char *at = shmat(segment, NULL, 0);
    pid_t child;

    if (at == (void *)-1 || !calls(set))
        return 1;
    for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) {
        signal(signals[i], note);
        kill(0, signals[i]);
        while (got != signals[i])
            ;
        at[0]++;
        if (!calls(set))
            return 2;
    }

    child = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(!calls(set));
    if (!ends_well(child) || !calls(set))
        return 3;

    clearenv();
    child = fork();
    if (child == 0)
        _exit(!calls(set) || at[0] != sizeof signals / sizeof *signals);
    return !ends_well(child) || semctl(set, 0, IPC_RMID) != 0 || shmctl(segment, IPC_RMID, NULL) != 0;
}
