/*
 * bounded_buffer.c - producers and consumers over a segment and three semaphores: places that are
 * empty, places that are full, and who may change the buffer. Even ranks produce, odd ones consume.
 *
 * Only the third is taken with SEM_UNDO: undone at exit, the other two would lose count of the buffer.
 * Some processes (rank 0's forked children) are killed with it in hand, and the others must go on.
 * Every item is consumed once, and those of one producer reach one consumer in order.
 */
#include "common.h"

enum { EMPTY = SEM_OWN, FULL, BUFFER, PRODUCING, PLACES = 7, NO_MORE = -1 };

struct buffer {
    long in, out; /* how many went in and out */
    long holder;  /* who changes the buffer */
    long item[PLACES];
    unsigned char seen[]; /* by item: how often it was consumed */
};

static long items = 500, kills = 4;

static void put(struct buffer *buffer, long item)
{
    sem_one(job.sem, EMPTY, -1, 0);
    lock(BUFFER);
    enter_alone(&buffer->holder);
    if (buffer->in - buffer->out >= PLACES)
        fail("%ld items in a buffer of %d", buffer->in - buffer->out, PLACES);
    buffer->item[buffer->in++ % PLACES] = item;
    leave_alone(&buffer->holder);
    unlock(BUFFER);
    sem_one(job.sem, FULL, 1, 0);
}

static long take(struct buffer *buffer)
{
    long item;

    sem_one(job.sem, FULL, -1, 0);
    lock(BUFFER);
    enter_alone(&buffer->holder);
    if (buffer->in <= buffer->out)
        fail("the buffer is empty after a semaphore said it is not");
    item = buffer->item[buffer->out++ % PLACES];
    leave_alone(&buffer->holder);
    unlock(BUFFER);
    sem_one(job.sem, EMPTY, 1, 0);
    return item;
}

/* A child dies with the buffer's semaphore in hand. */
static void kill_one(void)
{
    int ready[2], status;
    char byte;
    pid_t child;

    fflush(stdout);
    if (pipe(ready) < 0 || (child = fork()) < 0)
        fail_errno("fork");
    if (child == 0) {
        lock(BUFFER);
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(ready[0], &byte, 1) != 1)
        fail_errno("read");
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
        fail("the child was not killed");
    close(ready[0]);
    close(ready[1]);
}

static void consume(struct buffer *buffer, int producers)
{
    long *last = malloc((size_t)producers * sizeof *last);

    if (last == NULL)
        fail_errno("malloc");
    for (int i = 0; i < producers; i++)
        last[i] = -1;
    for (;;) {
        long item = take(buffer), who = item / items;

        if (item == NO_MORE)
            break;
        if (item < 0 || who >= producers)
            fail("item %ld was never produced", item);
        if (item <= last[who])
            fail("item %ld came after item %ld of the same producer", item, last[who]);
        last[who] = item;
        __atomic_fetch_add(&buffer->seen[item], 1, __ATOMIC_RELAXED);
    }
    free(last);
}

int main(int argc, char **argv)
{
    int option, producers, consumers;
    unsigned short values[4] = {PLACES, 0, 1, 0};
    struct buffer *buffer;

    job_name(argv[0]);
    while ((option = getopt(argc, argv, JOB_OPTIONS "i:d:")) != -1) {
        switch (option) {
        case 'i': items = number(optarg, 1); break;
        case 'd': kills = number(optarg, 0); break;
        default:
            if (!job_option(option))
                usage("[-i ITEMS-A-PRODUCER] [-d CHILDREN-TO-KILL]");
        }
    }
    /* How many come is known only in meet(): room for the most. */
    meet(2, sizeof(struct buffer) + (size_t)items * 1000, 4, values);
    producers = (job.all + 1) / 2;
    consumers = job.all / 2;
    buffer = job.data;
    if (job.rank == 0)
        sem_one(job.sem, PRODUCING, producers, 0);
    barrier();
    if (job.rank % 2 == 0) {
        long first = job.rank / 2 * items;

        for (long i = 0; i < items; i++) {
            if (job.rank == 0 && kills > 0 && i % (items / kills + 1) == 0)
                kill_one();
            put(buffer, first + i);
        }
        sem_one(job.sem, PRODUCING, -1, 0);
        if (job.rank == 0) {
            sem_one(job.sem, PRODUCING, 0, 0);
            for (int i = 0; i < consumers; i++)
                put(buffer, NO_MORE);
        }
    } else {
        consume(buffer, producers);
    }
    barrier();
    for (long i = 0; i < producers * items; i++)
        if (buffer->seen[i] != 1)
            fail("item %ld was consumed %d times", i, buffer->seen[i]);
    if (semctl(job.sem, EMPTY, GETVAL) != PLACES || semctl(job.sem, FULL, GETVAL) != 0)
        fail("semaphores at the end: %d empty, %d full", semctl(job.sem, EMPTY, GETVAL),
             semctl(job.sem, FULL, GETVAL));
    barrier();
    if (job.rank == 0)
        printf("bounded_buffer: %d producer(s), %d consumer(s), %ld items each once, %ld killed: ok\n", producers,
               consumers, producers * items, kills);
    return part();
}
