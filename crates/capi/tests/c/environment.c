/*
 * What a node proves itself with, the job's secret and a certificate's key, is in a pipe and never in the environment. mg_init closes the
 * pipe and forgets its number, so neither programs that a node starts have it; what the launcher finds processes by
 * stays. Such a program cannot join.
 */
#include "check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* Bytes of the environment as the kernel shows it. */
static size_t environment(char *bytes, size_t room)
{
    int file = open("/proc/self/environ", O_RDONLY);
    size_t length = 0;
    ssize_t count;

    CHECK(file >= 0);
    while ((count = read(file, bytes + length, room - length)) > 0)
        length += (size_t)count;
    CHECK(count == 0 && length < room);
    close(file);
    return length;
}

static int shell(const char *command)
{
    int status = system(command);

    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* What lies in a pipe, which stays there. */
static size_t look(int fd, char *bytes, size_t room)
{
    int copy[2];
    ssize_t length;

    CHECK(pipe(copy) == 0);
    length = tee(fd, copy[1], room - 1, SPLICE_F_NONBLOCK);
    CHECK(length > 0 && read(copy[0], bytes, room - 1) == length);
    bytes[length] = 0;
    close(copy[0]);
    close(copy[1]);
    return (size_t)length;
}

int main(int argc, char **argv)
{
    static char bytes[1 << 20];
    static char held[8192];
    char command[4096];
    const char *number = getenv("MULTIGRAIN_SECRET_FD");
    char *secret, *own, *key;
    struct stat before, now;
    int fd;
    size_t length;

    if (argc > 1)
        /* The child of a node. */
        return -mg_init(&argc, &argv);
    CHECK(number != NULL);
    fd = atoi(number);
    CHECK(fstat(fd, &before) == 0 && S_ISFIFO(before.st_mode));
    look(fd, held, sizeof held);
    secret = strtok(held, "\n");
    own = strtok(NULL, "\n");
    CHECK(secret != NULL && strlen(secret) == 64);
    CHECK((own != NULL) == (strcmp(getenv("EXPECTED"), "credentials") == 0));
    key = own == NULL ? secret : strchr(own, '.');
    length = environment(bytes, sizeof bytes);
    CHECK(memmem(bytes, length, secret, 64) == NULL);
    CHECK(memmem(bytes, length, key, strlen(key)) == NULL);

    OK(mg_init(&argc, &argv));
    CHECK(getenv("MULTIGRAIN_SECRET_FD") == NULL);
    /* The number may be another one's. */
    CHECK(fstat(fd, &now) < 0 || now.st_ino != before.st_ino || now.st_dev != before.st_dev);
    length = environment(bytes, sizeof bytes);
    CHECK(memmem(bytes, length, secret, 64) == NULL);
    CHECK(memmem(bytes, length, "MULTIGRAIN_JOB=", 15) != NULL);
    CHECK(shell("env | grep -q '^MULTIGRAIN_JOB='") == 0);
    CHECK(shell("env | grep -q '^MULTIGRAIN_SECRET'") == 1);
    snprintf(command, sizeof command, "%s child", argv[0]);
    CHECK(shell(command) == -MG_EINVAL);
    snprintf(command, sizeof command, "env -u MULTIGRAIN_RANK %s child", argv[0]);
    CHECK(shell(command) == 0);
    OK(mg_barrier(0, (uint32_t)mg_nodes()));
    OK(mg_finalize());
    return 0;
}
