/* Processes of two sites that wait for semaphores of one set, and for ever but for what the argument says. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <unistd.h>

static int set;

static void operate(unsigned short number, short change)
{
    struct sembuf operation = {number, change, 0};

    if (semop(set, &operation, 1) < 0) {
        perror("semop");
        exit(1);
    }
}

static void *waits(void *arg)
{
    operate(2, -1);
    return arg;
}

/* Lets both others go. */
static void *posts_later(void *arg)
{
    sleep(4);
    operate(0, 1);
    operate(1, 1);
    return arg;
}

static void handler(int signal)
{
    (void)signal;
}

static int is(const char *how, const char *word)
{
    return strcmp(how, word) == 0;
}

int main(int count, char **arguments)
{
    int rank = atoi(getenv("MULTIGRAIN_RANK"));
    const char *how = count > 1 ? arguments[1] : "";
    struct {
        long kind;
        char text[4096];
    } message = {1, ""};
    pthread_t thread;

    set = semget(0x1234, 3, IPC_CREAT | 0600);
    if (set < 0)
        return 1;
    if (is(how, "join")) {
        pthread_create(&thread, NULL, waits, NULL);
        pthread_join(thread, NULL);
    } else if (is(how, "child")) {
        if (fork() != 0) {
            wait(NULL);
            return 0;
        }
    } else if (is(how, "end") && rank == 1) {
        return 0;
    } else if (is(how, "messages")) {
        int queue = msgget(0x77, IPC_CREAT | 0600);

        if (rank == 0)
            msgrcv(queue, &message, sizeof message.text, 5, 0);
        while (msgsnd(queue, &message, sizeof message.text, 0) == 0)
            ;
        return 1;
    } else if (rank == 1) {
        if (is(how, "thread")) {
            pthread_create(&thread, NULL, posts_later, NULL);
        } else if (is(how, "exit")) {
            pthread_create(&thread, NULL, posts_later, NULL);
            pthread_detach(thread);
            pthread_exit(NULL);
        } else if (is(how, "orphan")) {
            if (fork() == 0) {
                posts_later(NULL);
                return 0;
            }
        } else if (is(how, "alarm")) {
            alarm(4);
            signal(SIGALRM, SIG_DFL);
        } else if (is(how, "handler")) {
            struct sigaction action = {.sa_handler = handler};

            sigaction(SIGUSR1, &action, NULL);
        } else if (is(how, "limit")) {
            struct sembuf operation = {1, -1, 0};
            struct timespec within = {4, 0};

            semtimedop(set, &operation, 1, &within);
            operate(0, 1);
            return 0;
        }
    }
    operate(rank, -1);
    return 0;
}
