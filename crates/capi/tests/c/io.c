/*
 * System calls and stdio on shared buffers that are elsewhere, and that another node takes away all the
 * time: of pages and of small minipages, whole and in part, of any size.
 */
#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define SMALL 100000
#define LARGE ((size_t)(9 << 20) + 77)

static int me, nodes;

static void meet(void)
{
    OK(mg_barrier(0, 0));
}

static unsigned char byte_of(size_t at)
{
    return (unsigned char)(at * 7 + at / 4096);
}

static void fill(unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = byte_of(i);
}

static void filled(const unsigned char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != byte_of(i))
            FAIL("byte %zu of %zu is %d, not %d", i, bytes, p[i], byte_of(i));
}

/* An empty file of this process alone. */
static int new_file(void)
{
    int file = memfd_create("io", MFD_CLOEXEC);

    CHECK(file >= 0);
    return file;
}

static void files(unsigned char *block, size_t bytes)
{
    int file = new_file();
    FILE *stream;

    CHECK(mg_write(file, block, bytes) == (ssize_t)bytes);
    CHECK(mg_pwrite(file, block, bytes, (int64_t)bytes) == (ssize_t)bytes);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    memset(block, 0, bytes);
    CHECK(mg_read(file, block, bytes) == (ssize_t)bytes);
    filled(block, bytes);
    memset(block, 0, bytes);
    /* The end of the file comes first. */
    CHECK(mg_pread(file, block, bytes, (int64_t)(bytes + bytes / 2)) == (ssize_t)(bytes - bytes / 2));
    CHECK(block[0] == byte_of(bytes / 2));
    CHECK(mg_pread(file, block, bytes, (int64_t)bytes) == (ssize_t)bytes);
    filled(block, bytes);
    CHECK(mg_read(file, block, 0) == 0);
    CHECK(mg_write(-1, block, bytes) == -1 && errno == EBADF);
    CHECK(mg_read(-1, block, bytes) == -1 && errno == EBADF);

    CHECK(lseek(file, 0, SEEK_SET) == 0 && (stream = fdopen(file, "r+")) != NULL);
    CHECK(mg_fwrite(block, 1, bytes, stream) == bytes);
    CHECK(mg_fwrite(block, bytes / 4, 4, stream) == 4);
    CHECK(mg_fwrite(block, 0, 4, stream) == 0);
    rewind(stream);
    memset(block, 0, bytes);
    CHECK(mg_fread(block, 1, bytes, stream) == bytes);
    filled(block, bytes);
    /* Less than asked for: whole items count. */
    CHECK(fseek(stream, -(long)(bytes / 2), SEEK_END) == 0);
    CHECK(mg_fread(block, bytes / 4, 4, stream) == 2 && feof(stream));
    errno = 0;
    CHECK(mg_fread(block, SIZE_MAX / 2, 4, stream) == 0 && errno == EFAULT && mg_last_error() == MG_EINVAL);
    fclose(stream);
    fill(block, bytes);
}

/* A pipe takes what it has room for, and gives what it has. */
static void pipes(unsigned char *block, size_t bytes)
{
    size_t done = 0, got = 0;
    unsigned char *copy = malloc(bytes);
    int ends[2];

    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    while (got < bytes) {
        ssize_t wrote = done < bytes ? mg_write(ends[1], block + done, bytes - done) : 0, read;

        CHECK(wrote >= 0);
        done += (size_t)wrote;
        read = mg_read(ends[0], block + got, bytes - got);
        CHECK(read > 0 && got + (size_t)read <= done);
        memcpy(copy + got, block + got, (size_t)read);
        got += (size_t)read;
    }
    CHECK(mg_read(ends[0], block, bytes) == -1 && errno == EAGAIN);
    filled(copy, bytes);
    free(copy);
    close(ends[0]);
    close(ends[1]);
}

static void sockets(unsigned char *block)
{
    int ends[2];

    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    CHECK(mg_send(ends[0], block, 60000, 0) == 60000);
    CHECK(mg_send(ends[0], block, 100, 0) == 100);
    CHECK(mg_recv(ends[1], block, SMALL, MSG_PEEK) == 60000);
    CHECK(mg_recv(ends[1], block, SMALL, 0) == 60000);
    CHECK(mg_recv(ends[1], block, SMALL, 0) == 100);
    CHECK(mg_recv(ends[1], block, SMALL, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    filled(block, SMALL);
    /* The length of a datagram that is cut off: nothing behind the buffer, and the next one stays. */
    CHECK(mg_send(ends[0], block + 200, 60000, 0) == 60000);
    CHECK(mg_send(ends[0], block, 3, 0) == 3);
    CHECK(mg_recv(ends[1], block + 200, 4, MSG_TRUNC) == 60000);
    CHECK(mg_recv(ends[1], block, 3, MSG_TRUNC) == 3);
    filled(block, SMALL);
    close(ends[0]);
    close(ends[1]);
}

/* One node at a time passes the bytes on; the last one reads and writes a byte here and there. */
static void with(const char *name, size_t bytes, size_t grain)
{
    unsigned char *block = SHARE(name, 0, mg_malloc_grain(bytes, grain));
    uint32_t *over = MUST(mg_calloc(1, sizeof *over));
    char turn_name[32];

    snprintf(turn_name, sizeof turn_name, "over %s", name);
    if (me == 0) {
        fill(block, bytes);
        OK(mg_publish(turn_name, over));
    }
    over = MUST(mg_lookup(turn_name));
    meet();
    for (int turn = 0; turn < nodes; turn++) {
        if (me == turn) {
            files(block, bytes);
            pipes(block, bytes < 300000 ? bytes : 300000);
            if (bytes >= SMALL)
                sockets(block);
            __atomic_fetch_add(over, 1, __ATOMIC_SEQ_CST);
        } else if (me == (turn + 1) % nodes) {
            volatile unsigned char *bytes_of_it = block;

            for (size_t at = 0; __atomic_load_n(over, __ATOMIC_SEQ_CST) == (uint32_t)turn; at += 4099)
                (void)bytes_of_it[at % bytes];
        }
        meet();
    }
    filled(block, bytes);
    meet();
}

int main(int argc, char **argv)
{
    unsigned char own[SMALL];

    OK(mg_init(&argc, &argv));
    me = mg_node();
    nodes = mg_nodes();
    fill(own, sizeof own);
    files(own, sizeof own); /* not shared: as ever */
    with("small", 100, 4096);
    with("pages", SMALL, 4096);
    with("whole", SMALL, SMALL);
    with("large", LARGE, 1 << 20);
    OK(mg_finalize());
    return 0;
}
