// Exceptions that leave functions which the interface calls.
#include "check.hpp"

static long *calls;

static void throws()
{
    ++*calls;
    throw 5;
}

static void counts()
{
    ++*calls;
}

// It has not run: the next that comes runs its own.
static void once()
{
    calls = static_cast<long *>(mg_lookup("calls"));
    int caught = 0;
    try {
        mg_once(1, throws);
    } catch (int) {
        caught = 1;
    }
    CHECK(mg_once(1, counts) == MG_OK);
    CHECK(mg_barrier(1, 0) == MG_OK);
    // One that threw ran nothing: whoever came while nobody had run it threw, and one counted.
    const long one = caught;
    long all = 0;
    CHECK(mg_allreduce(2, 0, static_cast<uint32_t>(mg_node()), &one, &all, 1, MG_INT64, MG_SUM) == MG_OK);
    CHECK(all >= 1 && *calls == all + 1);
}

static void refuses(void *, const void *)
{
    throw 7;
}

static void adds(void *into, const void *with)
{
    *static_cast<long *>(into) += *static_cast<const long *>(with);
}

static void combine()
{
    const auto place = static_cast<uint32_t>(mg_node());
    const long one = 1;
    long all = 0;
    int caught = 0;
    try {
        mg_allreduce_with(3, 0, place, &one, &all, 1, sizeof one, refuses);
    } catch (int) {
        caught = 1;
    }
    CHECK(caught == (mg_nodes() > 1) && all == (mg_nodes() > 1 ? 0 : 1));
    CHECK(mg_allreduce_with(3, 0, place, &one, &all, 1, sizeof one, adds) == MG_OK);
    CHECK(all == mg_nodes());
}

int main(int argc, char **argv)
{
    CHECK(mg_init(&argc, &argv) == MG_OK);
    if (mg_node() == 0)
        CHECK(mg_publish("calls", mg_calloc(1, sizeof *calls)) == MG_OK);
    CHECK(mg_barrier(0, 0) == MG_OK);
    once();
    combine();
    return mg_finalize();
}
