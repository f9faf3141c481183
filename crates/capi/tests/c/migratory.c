/*
 * Migratory data (ADR 47): what a node reads and then writes, each time it has it, it fetches once and not twice; and what
 * only looks like that is not taken from who reads it. For two nodes, under sequential consistency.
 */
#include "check.h"

#define ROUNDS 400u
/* A node looks four times at most before it knows: two signs, and what comes before the first. */
#define LEARNT 8u

static struct mg_stats since(struct mg_stats before)
{
    struct mg_stats now;

    OK(mg_get_stats(&now, sizeof now));
    now.read_faults -= before.read_faults;
    now.write_faults -= before.write_faults;
    return now;
}

static const struct mg_stats NONE_YET;

static void few(const char *what, uint64_t count, uint64_t most)
{
    if (count > most)
        FAIL("%s: %llu, more than %llu", what, (unsigned long long)count, (unsigned long long)most);
}

/* Turns go from node to node; each part of the program has semaphores of its own. */
static uint32_t part;

static void begin_turn(void)
{
    OK(mg_sem_wait(2 * part + (uint32_t)mg_node()));
}

static void end_turn(void)
{
    OK(mg_sem_post(2 * part + (uint32_t)(1 - mg_node()), 1));
}

/* Both add in turn. */
static void both_write(volatile uint64_t *word)
{
    struct mg_stats before = since(NONE_YET);

    for (uint64_t round = 0; round < ROUNDS; round++) {
        begin_turn();
        CHECK(*word == 2 * round + (uint64_t)mg_node());
        *word = *word + 1;
        end_turn();
    }
    few("faults to read", since(before).read_faults, ROUNDS);
    few("faults to write what was read", since(before).write_faults, LEARNT);
}

/* One adds, the other looks: who looks must not take it. */
static void one_writes(volatile uint64_t *word)
{
    struct mg_stats before = since(NONE_YET);

    for (uint64_t round = 0; round < ROUNDS; round++) {
        begin_turn();
        CHECK(*word == round + (uint64_t)mg_node());
        if (mg_node() == 0)
            *word = *word + 1;
        end_turn();
    }
    few("faults to read", since(before).read_faults, mg_node() == 0 ? LEARNT : ROUNDS);
    few("faults to write", since(before).write_faults, mg_node() == 0 ? ROUNDS : 0);
}

/*
 * Both look, first the one that then adds; they take turns at that. Each has a fault to read and one to write in its
 * own round. To take it with the first would cost the other a fault more, and itself the second all the same.
 */
static void both_read_and_one_writes(volatile uint64_t *word)
{
    struct mg_stats before = since(NONE_YET);

    for (uint64_t round = 0; round < ROUNDS; round++) {
        begin_turn();
        CHECK(*word == round);
        end_turn();
        if (round % 2 == (uint64_t)mg_node()) {
            begin_turn();
            *word = round + 1;
            end_turn();
        }
    }
    few("faults to read", since(before).read_faults, ROUNDS / 2 + ROUNDS / 16);
    few("faults to write", since(before).write_faults, ROUNDS / 2);
}

int main(int argc, char **argv)
{
    static void (*const parts[])(volatile uint64_t *) = {both_write, one_writes, both_read_and_one_writes};

    OK(mg_init(&argc, &argv));
    CHECK(mg_nodes() == 2);
    for (part = 0; part < sizeof parts / sizeof *parts; part++) {
        char name[32];
        volatile uint64_t *word;

        snprintf(name, sizeof name, "word %u", part);
        word = SHARE(name, 0, mg_malloc(sizeof *word));
        if (mg_node() == 0)
            OK(mg_sem_post(2 * part, 1));
        parts[part](word);
        OK(mg_barrier(0, 0));
    }
    OK(mg_finalize());
    return 0;
}
