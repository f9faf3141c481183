/* Cuts its own ways to the site, and posts semaphores. */
#include <stdio.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/socket.h>

int main(void)
{
    struct sembuf post = { 0, 1, 0 };
    int id = semget(7, 1, IPC_CREAT | 0600), cut = 0;

    if (id < 0 || semop(id, &post, 1) != 0) {
        perror("semop");
        return 1;
    }
    for (int fd = 3; fd < 4096; fd++) {
        int kind;
        socklen_t length = sizeof kind;

        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &length) == 0 && kind == SOCK_SEQPACKET)
            cut += shutdown(fd, SHUT_RDWR) == 0;
    }
    if (cut == 0)
        return 2;
    semop(id, &post, 1);
    puts("went on");
    return 0;
}
