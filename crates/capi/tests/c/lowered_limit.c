/* A node that may have no more descriptors than it has when it speaks to others for the first time. */
#include <multigrain.h>
#include <sys/resource.h>

int main(int argc, char **argv)
{
    struct rlimit limit = {16, 16};

    if (mg_init(&argc, &argv) != MG_OK || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 1;
    for (unsigned lock = 0; lock < (unsigned)mg_nodes(); lock++) {
        mg_lock(lock);
        mg_unlock(lock);
    }
    mg_barrier(1, 0);
    return mg_finalize();
}
