/* Started by hand, not by `multigrain run`: the node it needs hangs up. */
#include "check.h"

int main(int argc, char **argv)
{
    CODE(mg_init(&argc, &argv), MG_EPEER);
    CHECK(strstr(mg_strerror(MG_EPEER), "node 0") != NULL);
    return 0;
}
