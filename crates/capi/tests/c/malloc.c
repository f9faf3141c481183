/* malloc's family: alignment, sizes of zero, another size, what may be used, copies of strings. */
#include "check.h"

#include <stdalign.h>
#include <stddef.h>

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

static void aligned(void *p, size_t bytes, size_t align)
{
    if ((uintptr_t)p % align != 0)
        FAIL("%zu bytes at %p, which is no multiple of %zu", bytes, p, align);
    CHECK(mg_usable_size(p) >= bytes);
}

/* Several of each size: only the first begins a page. */
static void every_size_is_aligned(void)
{
    for (size_t bytes = 1; bytes < 5000; bytes += bytes < 600 ? 1 : 61) {
        for (int i = 0; i < 5; i++)
            aligned(MUST(mg_malloc(bytes)), bytes, bytes < 16 ? 8 : alignof(max_align_t));
    }
    for (size_t align = 1; align <= 4 << 20; align *= 2) {
        static const size_t sizes[] = {0, 1, 24, 100, 320, 3000, 5000, 70000};

        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            for (int again = 0; again < 3; again++) {
                void *p = MUST(mg_memalign(align, sizes[i]));

                aligned(p, sizes[i], align);
                memset(p, 1, sizes[i]);
                if (again == 1)
                    OK(mg_free(p));
            }
        }
    }
    NONE(mg_memalign(0, 8), MG_EINVAL);
    NONE(mg_memalign(24, 8), MG_EINVAL);
    NONE(mg_memalign(8 << 20, 8), MG_EINVAL);
}

struct wide {
    alignas(16) double pair[2];
    double others[17];
};

/* Stores of pairs, as a compiler makes them for such a type. */
static void a_wide_struct_does_not_trap(void)
{
    for (int i = 0; i < 100; i++) {
        struct wide *p = MUST(mg_malloc(sizeof *p));
        struct wide local = {{i, i + 1}, {0}};

        *(volatile struct wide *)p = local;
        CHECK(p->pair[1] == i + 1);
        OK(mg_free(p));
    }
}

static void nothing_is_something(void)
{
    char *one = MUST(mg_malloc(0)), *two = MUST(mg_malloc(0)), *three = MUST(mg_calloc(0, 8));

    CHECK(one != two && two != three && one != three && *three == 0);
    one = MUST(mg_realloc(one, 0));
    OK(mg_free(one));
    OK(mg_free(two));
    OK(mg_free(three));
}

static void check_text(const char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        CHECK(p[i] == (char)('a' + i % 26));
}

/* It grows on one node after the other, up to many pages and back. */
static void sizes_change(char **box)
{
    static const size_t sizes[] = {10, 16, 100, 5000, 70000, 1 << 20, 3 << 20, 200000, 4000, 20, 1};
    size_t before = 0;

    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
        if (me == i % nodes) {
            char *p = MUST(mg_realloc(*box, sizes[i]));

            check_text(p, before < sizes[i] ? before : sizes[i]);
            CHECK(mg_usable_size(p) >= sizes[i] && mg_usable_size(p) <= 2 * sizes[i] + 8192);
            for (size_t at = 0; at < sizes[i]; at++)
                p[at] = (char)('a' + at % 26);
            CHECK(mg_realloc(p, sizes[i]) == p);
            *box = p;
        }
        before = sizes[i];
        meet();
        check_text(*box, before);
        meet();
    }
    if (me == 0) {
        char *p = MUST(mg_malloc(64)), *array = MUST(mg_malloc_array(4, 8));
        int private_value;

        NONE(mg_realloc(p, SIZE_MAX / 4), MG_ENOMEM);
        memset(p, 0, 64);
        NONE(mg_realloc(p + 1, 10), MG_ENOTSHARED);
        NONE(mg_realloc(array, 100), MG_ENOTSHARED);
        NONE(mg_realloc(&private_value, 100), MG_ENOTSHARED);
        CHECK(mg_usable_size(p + 1) == 0 && mg_last_error() == MG_ENOTSHARED);
        CHECK(mg_usable_size(array) == 0 && mg_usable_size(NULL) == 0);
        OK(mg_free(p));
        OK(mg_free(array));
    }
    meet();
}

static void strings(void)
{
    char *text = SHARE("text", 0, mg_strdup("a string of the job"));

    CHECK(strcmp(text, "a string of the job") == 0);
    CHECK(*(char *)MUST(mg_strdup("")) == 0);
    NONE(mg_strdup(NULL), MG_EINVAL);
    meet();
}

static void never(void)
{
    CHECK(!"it runs");
}

static void own_ids_are_refused(void)
{
    CODE(mg_lock(UINT32_MAX), MG_EINVAL);
    CODE(mg_unlock(UINT32_MAX), MG_EINVAL);
    CODE(mg_sem_post(UINT32_MAX, 1), MG_EINVAL);
    CODE(mg_sem_wait(UINT32_MAX), MG_EINVAL);
    CODE(mg_cond_signal(UINT32_MAX), MG_EINVAL);
    CODE(mg_cond_broadcast(UINT32_MAX), MG_EINVAL);
    CODE(mg_cond_wait(UINT32_MAX, 1), MG_EINVAL);
    CODE(mg_cond_wait(1, UINT32_MAX), MG_EINVAL);
    CODE(mg_barrier(UINT32_MAX, 1), MG_EINVAL);
    CODE(mg_rwlock_rdlock(UINT32_MAX), MG_EINVAL);
    CODE(mg_rwlock_trywrlock(UINT32_MAX), MG_EINVAL);
    CODE(mg_rwlock_unlock(UINT32_MAX), MG_EINVAL);
    CODE(mg_once(UINT32_MAX, never), MG_EINVAL);
    CODE(mg_broadcast(UINT32_MAX, 1, 0, 0, &me, sizeof me), MG_EINVAL);
}

int main(int argc, char **argv)
{
    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    every_size_is_aligned();
    a_wide_struct_does_not_trap();
    nothing_is_something();
    sizes_change(SHARE("box", 0, mg_calloc(1, sizeof(char *))));
    strings();
    own_ids_are_refused();
    OK(mg_finalize());
    return 0;
}
