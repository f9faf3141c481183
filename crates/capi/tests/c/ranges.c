/* A range that leaves its allocation is refused in words of its own, and nothing is done; so is a private name. */
#include "check.h"

#include <sys/mman.h>

#define SAYS(call, words)                                                    \
    do {                                                                     \
        (void)(call);                                                        \
        if (strstr(mg_strerror(mg_last_error()), words) == NULL)             \
            FAIL("%s: %s, without \"%s\"", #call, mg_strerror(mg_last_error()), words); \
    } while (0)

static int global;

/* `bytes` from p are the last of their allocation. */
static void hints(char *p, size_t bytes)
{
    int (*const reading[])(const void *, size_t) = {mg_prefetch_read, mg_push, mg_touch_read};
    int (*const writing[])(void *, size_t) = {mg_prefetch_write, mg_touch_write};

    for (size_t i = 0; i < sizeof reading / sizeof *reading; i++) {
        OK(reading[i](p, 0));
        OK(reading[i](p, bytes));
        CODE(reading[i](p, bytes + 1), MG_EINVAL);
        SAYS(reading[i](p, SIZE_MAX), "beyond the end of its allocation");
    }
    for (size_t i = 0; i < sizeof writing / sizeof *writing; i++) {
        OK(writing[i](p, bytes));
        CODE(writing[i](p, bytes + 1), MG_EINVAL);
        SAYS(writing[i](p, SIZE_MAX), "beyond the end of its allocation");
    }
}

static void refused(ssize_t result, const char *call)
{
    if (result != -1 || errno != EFAULT || mg_last_error() != MG_EINVAL)
        FAIL("%s is %zd, errno %d, %d", call, result, errno, mg_last_error());
    SAYS(0, "beyond the end of its allocation");
    errno = 0;
    OK(mg_set_chunking(1));
    (void)mg_unlock(4711); /* another last error */
}

#define REFUSED(call) refused(call, #call)

static void calls(char *p, size_t bytes)
{
    int file = memfd_create("ranges", MFD_CLOEXEC);
    FILE *stream;

    CHECK(file >= 0 && mg_write(file, p, bytes) == (ssize_t)bytes);
    for (int bit = 0; bit < 63; bit += 14) {
        size_t more = (size_t)1 << bit;

        REFUSED(mg_write(file, p, bytes + more));
        REFUSED(mg_pwrite(file, p, bytes + more, 0));
        REFUSED(mg_read(file, p, bytes + more));
        REFUSED(mg_pread(file, p, bytes + more, 0));
        REFUSED(mg_send(file, p, bytes + more, 0));
        REFUSED(mg_recv(file, p, bytes + more, 0));
    }
    CHECK(lseek(file, 0, SEEK_END) == (off_t)bytes); /* nothing was done */
    CHECK((stream = fdopen(file, "r+")) != NULL);
    rewind(stream);
    CHECK(mg_fread(p, 1, bytes + 1, stream) == 0 && errno == EFAULT && !feof(stream));
    SAYS(0, "beyond the end of its allocation");
    CHECK(mg_fwrite(p, 1, bytes + 1, stream) == 0 && errno == EFAULT);
    CHECK(mg_fread(p, SIZE_MAX, 2, stream) == 0);
    CHECK(mg_fread(p, 1, bytes, stream) == bytes);
    fclose(stream);
}

static void each(char *p, size_t bytes)
{
    hints(p, bytes);
    calls(p, bytes);
}

/* An allocation, from its beginning and from within. */
static char *whole(char *p, size_t within)
{
    size_t bytes = mg_usable_size(p);

    CHECK(within < bytes);
    each(p, bytes);
    each(p + within, bytes - within);
    return p;
}

int main(int argc, char **argv)
{
    int local = 0;
    char *p;
    void *heap;

    OK(mg_init(&argc, &argv));
    if (mg_node() == 0) {
        whole(MUST(mg_calloc(1, 100)), 60);
        whole(MUST(mg_calloc(1, 10000)), 5000);
        whole(MUST(mg_malloc_with(9000, 0, MG_LAZY_RELEASE)), 8999);
        whole(MUST(mg_malloc_with(40, 0, MG_LAZY_RELEASE)), 8);
        p = whole(MUST(mg_malloc_grain(100000, 8192)), 99000);
        each(MUST(mg_element(MUST(mg_malloc_array(10, 1024)), 3)), 1024);
        OK(mg_set_chunking(4)); /* as neighbours in memory */
        each(MUST(mg_element(MUST(mg_malloc_array(16, 256)), 4)), 1024);
        whole(MUST(mg_calloc(1, 24)), 8);
        OK(mg_set_chunking(1));

        heap = malloc(8);
        CODE(mg_publish("global", &global), MG_ENOTSHARED);
        CODE(mg_publish("local", &local), MG_ENOTSHARED);
        CODE(mg_publish("heap", heap), MG_ENOTSHARED);
        CODE(mg_publish("number", (void *)7), MG_ENOTSHARED);
        SAYS(0, "is not shared memory");
        OK(mg_publish("inside", p + 8));
        free(heap);
    }
    CHECK(mg_lookup("inside") != NULL);
    OK(mg_finalize());
    return 0;
}
