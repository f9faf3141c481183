/*
 * ring.c - a token goes round the processes in one message queue; the type of a message is the rank it
 * is for, plus one. Before the token each sends its neighbour some numbered letters, one type for all
 * of it: they must come in order, each once, and be there when the token comes. Letters of several
 * lengths; the last round's are fetched with too small a buffer first (E2BIG leaves them there).
 */
#include "common.h"

enum { MOST = 200 };

struct letter {
    long type;
    struct {
        int from, round, number, is_token;
        unsigned char text[MOST];
    } what;
};

static long rounds = 200, letters = 3;

static void send(const struct letter *letter, size_t text)
{
    while (msgsnd(job.msg, letter, offsetof(struct letter, what.text) - sizeof(long) + text, 0) < 0)
        if (errno != EINTR)
            fail_errno("msgsnd");
}

static size_t length_of(int from, long round, long number)
{
    return scramble((uint64_t)(from * 1000003 + round * 1009 + number)) % (MOST + 1);
}

static void send_round(int to, long round)
{
    struct letter letter = {.type = to + 1, .what = {.from = job.rank, .round = (int)round}};

    for (int i = 0; i < letters; i++) {
        size_t length = length_of(job.rank, round, i);

        letter.what.number = i;
        memset(letter.what.text, (int)(round + i) & 0xff, length);
        send(&letter, length);
    }
    letter.what.is_token = 1;
    letter.what.number = (int)letters;
    send(&letter, 0);
}

static void receive_round(int from, long round)
{
    const size_t head = offsetof(struct letter, what.text) - sizeof(long);
    struct letter letter;

    for (int i = 0; i <= letters; i++) {
        size_t length = i < letters ? length_of(from, round, i) : 0;
        ssize_t got;

        if (round == rounds - 1) {
            while ((got = msgrcv(job.msg, &letter, 1, job.rank + 1, 0)) < 0 && errno == EINTR)
                ;
            if (got >= 0 || errno != E2BIG)
                fail("a letter that is too long: got %zd, %s", got, strerror(errno));
        }
        while ((got = msgrcv(job.msg, &letter, sizeof letter.what, job.rank + 1, 0)) < 0)
            if (errno != EINTR)
                fail_errno("msgrcv");
        if (got != (ssize_t)(head + length) || letter.type != job.rank + 1 || letter.what.from != from ||
            letter.what.round != round || letter.what.number != i || letter.what.is_token != (i == letters))
            fail("round %ld, letter %d: %zd bytes of type %ld from %d, round %d, number %d", round, i, got,
                 letter.type, letter.what.from, letter.what.round, letter.what.number);
        for (size_t at = 0; at < length; at++)
            if (letter.what.text[at] != (unsigned char)(round + i))
                fail("round %ld, letter %d: byte %zu is wrong", round, i, at);
    }
}

int main(int argc, char **argv)
{
    struct msqid_ds about;
    double took;
    int option, before, after;

    job_name(argv[0]);
    while ((option = getopt(argc, argv, JOB_OPTIONS "r:l:")) != -1) {
        switch (option) {
        case 'r': rounds = number(optarg, 1); break;
        case 'l': letters = number(optarg, 0); break;
        default:
            if (!job_option(option))
                usage("[-r ROUNDS] [-l LETTERS-A-ROUND, at most 20]");
        }
    }
    if (letters > 20) /* only one round's letters lie in the queue: they must fit */
        usage("[-r ROUNDS] [-l LETTERS-A-ROUND, at most 20]");
    meet(1, 0, 0, NULL);
    job.msg = msgget(job.key, IPC_CREAT | 0600);
    if (job.msg < 0)
        fail_errno("msgget");
    barrier();
    before = (job.rank + job.all - 1) % job.all;
    after = (job.rank + 1) % job.all;
    took = now_s();
    for (long round = 0; round < rounds; round++) {
        if (job.rank == 0)
            send_round(after, round);
        receive_round(before, round);
        if (job.rank != 0)
            send_round(after, round);
    }
    barrier();
    took = now_s() - took;
    if (msgctl(job.msg, IPC_STAT, &about) < 0)
        fail_errno("IPC_STAT");
    if (about.msg_qnum != 0 || about.msg_cbytes != 0)
        fail("%lu messages, %lu bytes are left in the queue", about.msg_qnum, about.msg_cbytes);
    barrier();
    if (job.rank == 0)
        printf("ring: %d processes, %ld rounds of %ld letters and a token, %.1f us a hop: ok\n", job.all, rounds,
               letters, took * 1e6 / (double)rounds / job.all);
    return part();
}
