/*
 * battleship.c - two players shoot into each other's field in shared memory (MIRAGE+, sections 5.2
 * and 5.4): the worst case for two sites.
 *
 * Shared: both fields in one page as in the paper (29 x 29: nearly its 2 x 789 turns), or in more pages with
 * a larger --size. A turn is Figure 3: P1 scan the own field for the adversary's shot, P2 acknowledge
 * it there, P3 shoot into the other field, P4 read that place until it is acknowledged. By default a
 * semaphore each says when to look; with --yield the memory itself synchronizes, by polling and
 * sched_yield(2), with --spin by polling alone.
 *
 * Fleets and shots come from the seed, so every process plays the whole game alone as well, in private
 * memory: winner, turns and final fields must be the same. Processes beyond two watch, and compare.
 */
#include "common.h"

enum { WATER = 0, SHOT = 1, MISS = 2, HIT = 3, SHIPS = 10 };
enum { BY_SEMAPHORE, BY_YIELD, BY_SPIN };
enum { TURN = SEM_OWN, ACKNOWLEDGED = SEM_OWN + 2 }; /* one a player each */

static long size = 29;
static int how = BY_SEMAPHORE;
static uint64_t seed = 1;

struct player {
    unsigned char *fleet; /* private: 1 where a ship is */
    int *shots;           /* private: the order of places */
    long ship_places, hits, shot_count;
};

struct counts { /* what the paper's Figure 3 says of a turn */
    long turns, scans, writes, polls;
};

static long places(void)
{
    return size * size;
}

static void place_ship(unsigned char *fleet, uint64_t *random, long length)
{
    for (;;) {
        long step = next_random(random) % 2 ? 1 : size;
        long along = (long)(next_random(random) % (uint64_t)(size - length + 1));
        long across = (long)(next_random(random) % (uint64_t)size);
        long at = step == 1 ? across * size + along : along * size + across, i;

        for (i = 0; i < length && fleet[at + i * step] == 0; i++)
            ;
        if (i < length)
            continue;
        for (i = 0; i < length; i++)
            fleet[at + i * step] = 1;
        return;
    }
}

static void prepare(struct player *player, int who)
{
    uint64_t random = scramble(seed * 2 + (uint64_t)who);

    *player = (struct player){.fleet = calloc((size_t)places(), 1),
                              .shots = calloc((size_t)places(), sizeof *player->shots)};
    if (player->fleet == NULL || player->shots == NULL)
        fail_errno("calloc");
    for (int ship = 0; ship < SHIPS; ship++) {
        long length = 2 + ship % 4;
        place_ship(player->fleet, &random, length);
        player->ship_places += length;
    }
    for (int i = 0; i < places(); i++)
        player->shots[i] = i;
    for (long i = places() - 1; i > 0; i--) {
        long other = (long)(next_random(&random) % (uint64_t)(i + 1));
        int kept = player->shots[i];

        player->shots[i] = player->shots[other];
        player->shots[other] = kept;
    }
}

/* The same game by one, alone. Returns the winner. */
static int play_alone(struct player *players, unsigned char *fields, long *turns)
{
    for (*turns = 0;; ++*turns) {
        int me = (int)(*turns % 2), other = 1 - me;
        int at = players[me].shots[players[me].shot_count++];

        fields[other * places() + at] = players[other].fleet[at] ? HIT : MISS;
        players[me].hits += players[other].fleet[at];
        if (players[me].hits == players[other].ship_places) {
            ++*turns;
            return me;
        }
    }
}

static unsigned char look(const unsigned char *place)
{
    return __atomic_load_n(place, __ATOMIC_ACQUIRE);
}

static void put(unsigned char *place, unsigned char what)
{
    __atomic_store_n(place, what, __ATOMIC_RELEASE);
}

static void poll_again(void)
{
    if (how == BY_YIELD)
        sched_yield();
}

/* P1. */
static long find_shot(const unsigned char *own, int me, struct counts *counts)
{
    if (how == BY_SEMAPHORE)
        sem_one(job.sem, TURN + me, -1, 0);
    for (;; poll_again()) {
        counts->scans++;
        for (long at = 0; at < places(); at++)
            if (look(own + at) == SHOT)
                return at;
        if (how == BY_SEMAPHORE)
            fail("its turn, and no shot in the field");
    }
}

/* P3 and P4; true when the shot has hit. */
static bool shoot(unsigned char *place, int other, struct counts *counts)
{
    unsigned char answer;

    if (look(place) != WATER)
        fail("a place that was not shot at holds %d", look(place));
    put(place, SHOT);
    counts->writes++;
    if (how == BY_SEMAPHORE) {
        sem_one(job.sem, TURN + other, 1, 0);
        sem_one(job.sem, ACKNOWLEDGED + 1 - other, -1, 0);
    }
    while ((answer = look(place)) == SHOT) {
        counts->polls++;
        if (how == BY_SEMAPHORE)
            fail("acknowledged, and the shot is unanswered");
        poll_again();
    }
    counts->polls++;
    if (answer != HIT && answer != MISS)
        fail("the answer to a shot is %d", answer);
    return answer == HIT;
}

/* Plays one side; returns the winner. */
static int play(struct player *mine, long adversary_places, unsigned char *fields, struct counts *counts)
{
    int me = job.rank, other = 1 - me;
    unsigned char *own = fields + me * places(), *theirs = fields + other * places();
    long struck = 0;

    for (bool begins = me == 0;; begins = false) {
        if (!begins) {
            long at = find_shot(own, me, counts);

            struck += mine->fleet[at];
            put(own + at, mine->fleet[at] ? HIT : MISS);
            counts->writes++;
            if (how == BY_SEMAPHORE)
                sem_one(job.sem, ACKNOWLEDGED + other, 1, 0);
            if (struck == mine->ship_places)
                return other;
        }
        counts->turns++;
        mine->hits += shoot(theirs + mine->shots[mine->shot_count++], other, counts);
        if (mine->hits == adversary_places)
            return me;
    }
}

static long pages_of(size_t from, size_t length)
{
    return (long)((from + length - 1) / PAGE - from / PAGE + 1);
}

int main(int argc, char **argv)
{
    static const unsigned short zeros[4];
    static const struct option longs[] = {{"yield", no_argument, &how, BY_YIELD},
                                          {"spin", no_argument, &how, BY_SPIN},
                                          {"size", required_argument, NULL, 'n'},
                                          {"seed", required_argument, NULL, 's'},
                                          {0}};
    static const char more[] = "[--yield | --spin] [--size EDGE] [--seed SEED]";
    struct player players[2], mine;
    struct counts counts = {0};
    unsigned char *fields, *alone;
    int option, winner = -1, expected;
    long turns;
    double took;

    job_name(argv[0]);
    while ((option = getopt_long(argc, argv, JOB_OPTIONS "n:s:", longs, NULL)) != -1) {
        switch (option) {
        case 0: break;
        case 'n': size = number(optarg, 10); break;
        case 's': seed = (uint64_t)number(optarg, 0); break;
        default:
            if (!job_option(option))
                usage(more);
        }
    }
    meet(2, (size_t)(2 * places()), 4, zeros);
    fields = job.data;
    prepare(&players[0], 0);
    prepare(&players[1], 1);
    alone = calloc(2, (size_t)places());
    if (alone == NULL)
        fail_errno("calloc");
    expected = play_alone(players, alone, &turns);
    mine = players[job.rank % 2];
    mine.hits = mine.shot_count = 0;
    barrier();
    took = now_s();
    if (job.rank < 2) {
        winner = play(&mine, players[1 - job.rank].ship_places, fields, &counts);
        if (winner != expected)
            fail("player %d has won, must be player %d", winner, expected);
        job.meeting->word[job.rank] = counts.turns;
    }
    took = now_s() - took;
    barrier();
    if (job.meeting->word[0] + job.meeting->word[1] != turns)
        fail("%ld and %ld turns, must be %ld together", job.meeting->word[0], job.meeting->word[1], turns);
    if (memcmp(fields, alone, (size_t)(2 * places())) != 0)
        fail("the fields differ from those of the game alone: %#lx, must be %#lx",
             checksum(1, fields, (size_t)(2 * places())), checksum(1, alone, (size_t)(2 * places())));
    barrier();
    if (job.rank == 0) {
        long own = pages_of(0, (size_t)places()), all = pages_of(0, (size_t)(2 * places()));

        /* In Figure 5 a turn is: a read fault, a page transfer, a write fault, an invalidation. */
        printf("battleship: %s, %d processes, player %d wins after %ld turns (%.3f ms each), fields of %ld "
               "page(s) in %ld; a turn of player 0 reads %ld own page(s) (%.1f scans) and 1 other (%.1f polls), "
               "writes %.1f places; fields %#lx: ok\n",
               how == BY_SEMAPHORE ? "semaphores" : how == BY_YIELD ? "yield" : "spin", job.all, winner, turns,
               took * 1e3 / (double)turns, own, all, own, (double)counts.scans / (double)counts.turns,
               (double)counts.polls / (double)counts.turns, (double)counts.writes / (double)counts.turns,
               checksum(1, fields, (size_t)(2 * places())));
    }
    for (int i = 0; i < 2; i++) {
        free(players[i].fleet);
        free(players[i].shots);
    }
    free(alone);
    return part();
}
