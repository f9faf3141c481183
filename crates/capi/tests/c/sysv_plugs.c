/* Node 0 gives what node 1 takes, by a library that looks for functions in its own libraries first. */
#include <dlfcn.h>
#include <stdlib.h>

int main(int count, char **arguments)
{
    void *plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND) : NULL;
    int (*operate)(int, int) = plugin ? (int (*)(int, int))dlsym(plugin, "operate") : NULL;
    int rank = atoi(getenv("MULTIGRAIN_RANK"));

    return operate == NULL || operate(0x99, rank == 0 ? 1 : -1) != 0;
}
