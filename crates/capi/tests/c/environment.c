/*
 * The job's secret, and a certificate's key, are in the environment until mg_init and nowhere in it
 * afterwards, nor in that of programs a node starts; what the launcher finds processes by stays. Such a program cannot join.
 */
#include "check.h"

#include <fcntl.h>
#include <sys/wait.h>

static const char mark[] = "MULTIGRAIN_SECRET=";

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

int main(int argc, char **argv, char **envp)
{
    static char bytes[1 << 20];
    static char own[8192];
    char secret[128], command[4096];
    const char *value = getenv("MULTIGRAIN_SECRET");
    size_t length;

    if (argc > 1)
        /* The child of a node. */
        return -mg_init(&argc, &argv);
    CHECK(value != NULL && strlen(value) == 64);
    strcpy(secret, value);
    length = environment(bytes, sizeof bytes);
    CHECK(memmem(bytes, length, secret, 64) != NULL);
    value = getenv("MULTIGRAIN_CREDENTIALS");
    CHECK((value != NULL) == (strcmp(getenv("EXPECTED"), "credentials") == 0));
    CHECK(value == NULL || strlen(value) < sizeof own);
    strcpy(own, value == NULL ? secret : strchr(value, '.'));
    CHECK(strlen(own) >= 64 && memmem(bytes, length, own, strlen(own)) != NULL);

    OK(mg_init(&argc, &argv));
    CHECK(getenv("MULTIGRAIN_SECRET") == NULL);
    length = environment(bytes, sizeof bytes);
    CHECK(memmem(bytes, length, secret, 64) == NULL);
    CHECK(getenv("MULTIGRAIN_CREDENTIALS") == NULL);
    CHECK(memmem(bytes, length, own, strlen(own)) == NULL);
    CHECK(memmem(bytes, length, "MULTIGRAIN_JOB=", 15) != NULL);
    for (char **variable = environ; *variable != NULL; variable++)
        CHECK(strstr(*variable, mark) == NULL);
    for (char **variable = envp; *variable != NULL; variable++)
        CHECK(strstr(*variable, secret) == NULL);
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
