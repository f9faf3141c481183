/*
 * matmul.c - C := A x B on integers by a master and workers (MIRAGE+, sections 5.2 and 5.5).
 *
 * The matrices lie in a segment of their own, made by the master (rank 0) without a key; its identifier
 * is told in the meeting page, and it is removed as soon as all are attached: the last detach frees it.
 * Bands of rows are handed out over a message queue (default), or drawn from a semaphore (--semaphore).
 * Rows can be padded (--pad BYTES) against false sharing, as in the paper. Alone, the master works.
 */
#include "common.h"

enum { BANDS = SEM_OWN };
enum { TASK = 1, DONE = 2, NO_MORE = -1 };

struct band {
    long type;
    struct {
        int first, rows, rank;
    } what;
};

static long size = 120, band_rows, pad;
static int by_semaphore;
static size_t row_bytes;

static int *row(void *matrices, int which, long i)
{
    return (int *)((char *)matrices + ((size_t)which * (size_t)size + (size_t)i) * row_bytes);
}

static int element(int which, long i, long j)
{
    return (int)(scramble((uint64_t)((which * size + i) * size + j)) % 2001) - 1000;
}

static void load(void *matrices)
{
    for (int which = 0; which < 2; which++)
        for (long i = 0; i < size; i++)
            for (long j = 0; j < size; j++)
                row(matrices, which, i)[j] = element(which, i, j);
}

static void multiply(void *matrices, long first, long rows)
{
    for (long i = first; i < first + rows && i < size; i++) {
        const int *a = row(matrices, 0, i);
        int *c = row(matrices, 2, i);

        for (long j = 0; j < size; j++) {
            int sum = 0; /* at most 10^6 a term: no overflow below a size of 2,000 */

            for (long k = 0; k < size; k++)
                sum += a[k] * row(matrices, 1, k)[j];
            c[j] = sum;
        }
    }
}

static void check(void *matrices)
{
    void *own = calloc(3 * (size_t)size, row_bytes);

    if (own == NULL)
        fail_errno("calloc");
    load(own);
    multiply(own, 0, size);
    for (int which = 0; which < 3; which++)
        for (long i = 0; i < size; i++)
            for (long j = 0; j < size; j++)
                if (row(matrices, which, i)[j] != row(own, which, i)[j])
                    fail("%c[%ld][%ld] is %d, must be %d", "ABC"[which], i, j, row(matrices, which, i)[j],
                         row(own, which, i)[j]);
    free(own);
}

static void send(struct band *band)
{
    while (msgsnd(job.msg, band, sizeof band->what, 0) < 0)
        if (errno != EINTR)
            fail_errno("msgsnd");
}

static struct band receive(long type)
{
    struct band band;
    ssize_t got;

    while ((got = msgrcv(job.msg, &band, sizeof band.what, type, 0)) < 0)
        if (errno != EINTR)
            fail_errno("msgrcv");
    if (got != (ssize_t)sizeof band.what)
        fail("a message of %zd bytes, must be %zu", got, sizeof band.what);
    return band;
}

/* Keeps no more tasks in the queue than fit it; `done` counts bands by the worker that did them. */
static void hand_out(long bands, int workers, long *done)
{
    long sent = 0, finished = 0;

    while (finished < bands) {
        if (sent < bands && sent - finished < 2L * workers) {
            struct band task = {TASK, {(int)(sent * band_rows), (int)band_rows, 0}};

            send(&task);
            sent++;
        } else {
            done[receive(DONE).what.rank]++;
            finished++;
        }
    }
    for (int i = 0; i < workers; i++) {
        struct band end = {TASK, {NO_MORE, 0, 0}};

        send(&end);
    }
}

static void work_from_queue(void *matrices)
{
    for (;;) {
        struct band task = receive(TASK);

        if (task.what.first == NO_MORE)
            return;
        multiply(matrices, task.what.first, task.what.rows);
        task.type = DONE;
        task.what.rank = job.rank;
        send(&task);
    }
}

/* The semaphore counts the bands left; what it is taken down to is not told, so the next is counted
 * in the meeting page under the mutex. */
static void work_from_semaphore(void *matrices)
{
    struct sembuf take = {BANDS, -1, IPC_NOWAIT};

    while (semop(job.sem, &take, 1) == 0) {
        long next;

        lock(SEM_MUTEX);
        next = job.meeting->word[1]++;
        unlock(SEM_MUTEX);
        multiply(matrices, next * band_rows, band_rows);
    }
    if (errno != EAGAIN)
        fail_errno("semop");
}

static void *attach_matrices(size_t bytes)
{
    void *matrices;

    if (job.rank == 0) {
        job.extra_shm = shmget(IPC_PRIVATE, bytes, 0600);
        if (job.extra_shm < 0)
            fail_errno("shmget");
        job.meeting->word[0] = job.extra_shm;
    }
    barrier();
    matrices = shmat((int)job.meeting->word[0], NULL, 0);
    if (matrices == (void *)-1)
        fail_errno("shmat of the matrices");
    barrier();
    if (job.rank == 0) {
        if (shmctl(job.extra_shm, IPC_RMID, NULL) < 0)
            fail_errno("IPC_RMID");
        job.extra_shm = -1;
        load(matrices);
    }
    return matrices;
}

int main(int argc, char **argv)
{
    static const unsigned short zero[1];
    static const struct option longs[] = {{"semaphore", no_argument, &by_semaphore, 1},
                                          {"size", required_argument, NULL, 'n'},
                                          {"band", required_argument, NULL, 'b'},
                                          {"pad", required_argument, NULL, 'P'},
                                          {0}};
    static const char more[] = "[--semaphore] [--size N] [--band ROWS] [--pad BYTES-A-ROW]";
    int option, workers;
    long bands, done[1000] = {0};
    void *matrices;
    double took;

    job_name(argv[0]);
    while ((option = getopt_long(argc, argv, JOB_OPTIONS "n:b:P:", longs, NULL)) != -1) {
        switch (option) {
        case 0: break;
        case 'n': size = number(optarg, 1); break;
        case 'b': band_rows = number(optarg, 1); break;
        case 'P': pad = number(optarg, 0); break;
        default:
            if (!job_option(option))
                usage(more);
        }
    }
    if (size > 2000 || pad % (long)sizeof(int) != 0)
        usage(more);
    row_bytes = (size_t)size * sizeof(int) + (size_t)pad;
    meet(1, 0, 1, zero);
    workers = job.all - 1;
    if (band_rows == 0) /* the paper's even bands */
        band_rows = (size + (workers ? workers : 1) - 1) / (workers ? workers : 1);
    bands = (size + band_rows - 1) / band_rows;
    matrices = attach_matrices(3 * (size_t)size * row_bytes);
    if (!by_semaphore) {
        job.msg = msgget(job.key, IPC_CREAT | 0600);
        if (job.msg < 0)
            fail_errno("msgget");
    }
    barrier();
    took = now_s();
    if (by_semaphore) {
        if (job.rank == 0)
            sem_one(job.sem, BANDS, (int)bands, 0);
        barrier();
        if (job.rank > 0 || workers == 0)
            work_from_semaphore(matrices);
    } else if (job.rank == 0 && workers > 0) {
        hand_out(bands, workers, done);
    } else if (job.rank == 0) {
        multiply(matrices, 0, size);
    } else {
        work_from_queue(matrices);
    }
    barrier();
    took = now_s() - took;
    check(matrices);
    barrier();
    if (shmdt(matrices) < 0)
        fail_errno("shmdt of the matrices");
    if (job.rank == 0) {
        long most = 0;

        for (int i = 0; i < job.all && i < 1000; i++)
            most = done[i] > most ? done[i] : most;
        printf("matmul: %ld x %ld, %d worker(s), %ld bands by %s", size, size, workers, bands,
               by_semaphore ? "semaphore" : "queue");
        if (most > 0)
            printf(" (one did %ld)", most);
        printf(", %.6f s: ok\n", took);
    }
    return part();
}
