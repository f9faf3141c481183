/* Closes all descriptors that it has not opened, and says what mg_init makes of that. */
#include "check.h"

int main(int argc, char **argv)
{
    for (int fd = 3; fd < 4096; fd++)
        close(fd);
    CHECK(mg_init(&argc, &argv) == MG_EINVAL);
    fprintf(stderr, "%s\n", mg_strerror(MG_EINVAL));
    return 1;
}
