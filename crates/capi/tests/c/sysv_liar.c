/* A process that has what lets it in says to its site that it is another's child, and names an object that it has not opened. */
#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELLO = 1, SEM_VALUE = 23, INHERIT = 24, MAP = 28 };

struct call {
    uint64_t ask;
    int64_t arguments[4];
    uint32_t user, group;
};

static int to_site = -1;

static size_t from_hex(const char *text, size_t bytes, unsigned char *into)
{
    size_t count = 0;

    for (; count < bytes && sscanf(text + 2 * count, "%2hhx", &into[count]) == 1; count++)
        ;
    return count;
}

static long ask(uint64_t what, int64_t first, int64_t second, int descriptor, const void *behind, size_t bytes)
{
    struct call call = {what, {first, second, 0, 4096}, getuid(), getgid()};
    struct iovec parts[2] = {{&call, sizeof call}, {(void *)(uintptr_t)behind, bytes}};
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    int64_t answer[3] = {0};

    if (descriptor >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.head = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(&control.head), &descriptor, sizeof descriptor);
    }
    if (sendmsg(to_site, &message, 0) < 0 || recv(to_site, answer, sizeof answer, 0) < 24)
        return -EPIPE;
    return answer[0];
}

static int lie(pid_t other)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    unsigned char token[16];
    const char *site = getenv("MULTIGRAIN_SITE"), *colon = strchr(site, ':');
    size_t name = from_hex(site, (size_t)(colon - site) / 2, (unsigned char *)to.sun_path + 1);
    int own = memfd_create("own", 0);

    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 1;
    from_hex(colon + 1, sizeof token, token);
    to_site = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (connect(to_site, (struct sockaddr *)&to, (socklen_t)(sizeof(sa_family_t) + 1 + name)) != 0)
        return 2;
    if (ask(HELLO, 12345, 0, -1, token, sizeof token) != 0)
        return 3;
    if (ask(INHERIT, other, 0, -1, NULL, 0) >= 0)
        return 4;
    if (ask(SEM_VALUE, 0, 0, -1, NULL, 0) != -EINVAL)
        return 5;
    if (ask(MAP, 1, 0, -1, NULL, 0) != -EBADF || ask(MAP, 1, 0, own, NULL, 0) != -EBADF)
        return 6;
    return 0;
}

int main(void)
{
    int ready[2], status = 0;
    char byte = 0;
    pid_t other, liar;

    if (pipe(ready) != 0)
        return 1;
    other = fork();
    if (other == 0) {
        sem_t *secret = sem_open("/secret", O_CREAT | O_EXCL, 0, 5);
        int object = shm_open("/object", O_CREAT | O_RDWR, 0600);

        if (secret == SEM_FAILED || object < 0 || ftruncate(object, 4096) != 0)
            _exit(1);
        if (write(ready[1], &byte, 1) == 1)
            pause();
        _exit(1);
    }
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        return 1;
    liar = fork();
    if (liar == 0)
        _exit(lie(other));
    waitpid(liar, &status, 0);
    sem_unlink("/secret");
    shm_unlink("/object");
    if (status != 0)
        fprintf(stderr, "the lie %d was believed\n", WEXITSTATUS(status));
    return status != 0;
}
