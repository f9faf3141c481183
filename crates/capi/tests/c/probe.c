/* Joins and leaves: whether a guard can be had on this system. */
#include "check.h"

int main(int argc, char **argv)
{
    if (mg_init(&argc, &argv) != MG_OK)
        return 3;
    return mg_finalize() == MG_OK ? 0 : 1;
}
