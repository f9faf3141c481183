/*
 * forker.c - attaches, fork, exec, exit and kill: who counts as attached, and that all of them write
 * the same segment. The processes of the job take turns, each with its own family of children, while
 * the others stay attached; nattch is asked for at each step.
 */
#include "common.h"

enum { HELD = SEM_OWN, WORDS = 8192, STEPS = 100 };

struct shared {
    long total;
    long word[WORDS]; /* over several pages */
};

static int segment; /* the one that is counted; not the job's own */
static struct shared *shared;
static long added; /* what this process and its family have added to the total */

static unsigned long attached(void)
{
    struct shmid_ds about;

    if (shmctl(segment, IPC_STAT, &about) < 0)
        fail_errno("IPC_STAT");
    return about.shm_nattch;
}

static void expect(unsigned long more, const char *when)
{
    unsigned long is = attached(), must_be = (unsigned long)job.all + more;

    if (is != must_be)
        fail("%s: nattch is %lu, must be %lu", when, is, must_be);
}

/* What a member of a family does with the segment. */
static void add(struct shared *to)
{
    for (int i = 0; i < STEPS; i++) {
        __atomic_fetch_add(&to->total, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&to->word[(i * 97) % WORDS], 1, __ATOMIC_SEQ_CST);
    }
}

static void reap(pid_t child, const char *who)
{
    int status;

    if (waitpid(child, &status, 0) != child)
        fail_errno("waitpid");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail("%s ended with status %#x", who, (unsigned)status);
}

/* Steps of parent and child, one after the other, over two pipes. */
struct steps {
    int to_child[2], to_parent[2];
};

static void open_steps(struct steps *steps)
{
    fflush(stdout);
    if (pipe(steps->to_child) < 0 || pipe(steps->to_parent) < 0)
        fail_errno("pipe");
}

static void close_steps(struct steps *steps)
{
    for (int i = 0; i < 2; i++) {
        close(steps->to_child[i]);
        close(steps->to_parent[i]);
    }
}

/* The child keeps its ends alone: where the parent is gone, it hears of it. */
static void keep_child_ends(struct steps *steps)
{
    close(steps->to_child[1]);
    close(steps->to_parent[0]);
}

static void say(int descriptor)
{
    if (write(descriptor, "", 1) != 1)
        fail_errno("write to a pipe");
}

static void hear(int descriptor)
{
    char byte;

    if (read(descriptor, &byte, 1) != 1)
        fail("the other side of a pipe is gone");
}

static pid_t must_fork(void)
{
    pid_t child = fork();

    if (child < 0)
        fail_errno("fork");
    return child;
}

static void twice(void)
{
    struct shared *again = shmat(segment, NULL, 0);

    if (again == (void *)-1)
        fail_errno("a second shmat");
    expect(1, "attached twice");
    again->word[0]++;
    if (again == shared || shared->word[0] != again->word[0])
        fail("two attaches of one process do not show the same");
    again->word[0]--;
    if (shmdt(again) < 0)
        fail_errno("shmdt");
    expect(0, "detached once");
}

static void child_that_exits(void)
{
    struct steps steps;
    pid_t child;

    open_steps(&steps);
    child = must_fork();
    if (child == 0) {
        keep_child_ends(&steps);
        add(shared);
        say(steps.to_parent[1]);
        hear(steps.to_child[0]);
        _exit(0);
    }
    hear(steps.to_parent[0]);
    expect(1, "a child by fork");
    add(shared);
    say(steps.to_child[1]);
    reap(child, "the child");
    expect(0, "the child has exited");
    added += 2 * STEPS;
    close_steps(&steps);
}

static void child_that_detaches(void)
{
    struct steps steps;
    pid_t child;

    open_steps(&steps);
    child = must_fork();
    if (child == 0) {
        keep_child_ends(&steps);
        if (shmdt(shared) < 0)
            fail_errno("shmdt in a child");
        say(steps.to_parent[1]);
        hear(steps.to_child[0]);
        _exit(0);
    }
    hear(steps.to_parent[0]);
    expect(0, "the child has detached");
    add(shared); /* the parent's attach is still there */
    added += STEPS;
    say(steps.to_child[1]);
    reap(child, "the child that detaches");
    close_steps(&steps);
}

static void tree(void)
{
    enum { WIDTH = 3 };
    struct steps steps;
    pid_t child[WIDTH];

    open_steps(&steps);
    for (int i = 0; i < WIDTH; i++) {
        child[i] = must_fork();
        if (child[i] == 0) {
            pid_t grandchild;

            keep_child_ends(&steps);
            grandchild = must_fork();
            add(shared);
            say(steps.to_parent[1]);
            hear(steps.to_child[0]);
            if (grandchild > 0)
                reap(grandchild, "a grandchild");
            _exit(0);
        }
    }
    for (int i = 0; i < 2 * WIDTH; i++)
        hear(steps.to_parent[0]);
    expect(2 * WIDTH, "children and grandchildren");
    for (int i = 0; i < 2 * WIDTH; i++)
        say(steps.to_child[1]);
    for (int i = 0; i < WIDTH; i++)
        reap(child[i], "a child of the tree");
    expect(0, "the tree is gone");
    added += 2L * WIDTH * STEPS;
    close_steps(&steps);
}

/* The child runs this program again, which knows the segment's identifier alone: see attach_by_id. */
static void child_that_execs(void)
{
    struct steps steps;
    pid_t child;

    open_steps(&steps);
    child = must_fork();
    if (child == 0) {
        char id[20], in[20], out[20];

        keep_child_ends(&steps);
        snprintf(id, sizeof id, "%d", segment);
        snprintf(in, sizeof in, "%d", steps.to_child[0]);
        snprintf(out, sizeof out, "%d", steps.to_parent[1]);
        execl("/proc/self/exe", job.name, "--by-id", id, in, out, (char *)NULL);
        fail_errno("exec");
    }
    hear(steps.to_parent[0]);
    expect(0, "exec detaches");
    say(steps.to_child[1]);
    hear(steps.to_parent[0]);
    expect(1, "attached by identifier after exec");
    say(steps.to_child[1]);
    hear(steps.to_parent[0]);
    expect(0, "the one after exec has detached");
    say(steps.to_child[1]);
    hear(steps.to_parent[0]);
    expect(1, "and has attached again");
    say(steps.to_child[1]);
    reap(child, "the child that execs");
    expect(0, "and has exited");
    added += 2 * STEPS;
    close_steps(&steps);
}

static int attach_by_id(char **words)
{
    int in = atoi(words[1]), out = atoi(words[2]);

    segment = atoi(words[0]);
    alarm((unsigned)job.seconds);
    for (int i = 0; i < 2; i++) {
        say(out);
        hear(in);
        shared = shmat(segment, NULL, 0);
        if (shared == (void *)-1)
            fail_errno("shmat by identifier");
        add(shared);
        say(out);
        hear(in);
        if (i == 0 && shmdt(shared) < 0)
            fail_errno("shmdt");
    }
    return 0;
}

/* Killed with the semaphore in hand: the undo gives it back, the attach is counted off. */
static void child_that_is_killed(void)
{
    struct steps steps;
    pid_t child;
    int status, last;

    open_steps(&steps);
    child = must_fork();
    if (child == 0) {
        keep_child_ends(&steps);
        lock(HELD);
        add(shared);
        say(steps.to_parent[1]);
        hear(steps.to_child[0]); /* which never comes */
        _exit(1);
    }
    hear(steps.to_parent[0]);
    expect(1, "a child that holds the semaphore");
    if (semctl(job.sem, HELD, GETVAL) != 0)
        fail("the child holds the semaphore, and its value is %d", semctl(job.sem, HELD, GETVAL));
    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail("the child was not killed: status %#x", (unsigned)status);
    expect(0, "the child is killed");
    last = semctl(job.sem, HELD, GETPID);
    if (semctl(job.sem, HELD, GETVAL) != 1)
        fail("the killed child's semaphore was not given back");
    if (last != child)
        fail("sempid is %d, must be the killed child's %d", last, (int)child);
    lock(HELD);
    unlock(HELD);
    added += STEPS;
    close_steps(&steps);
}

static void command(void)
{
    if (system("exit 0") != 0)
        fail("system(3) failed");
    expect(0, "after system(3)");
}

int main(int argc, char **argv)
{
    static const unsigned short one[1] = {1};
    int option;
    long rounds = 1;

    job_name(argv[0]);
    if (argc == 5 && strcmp(argv[1], "--by-id") == 0)
        return attach_by_id(argv + 2);
    while ((option = getopt(argc, argv, JOB_OPTIONS "r:")) != -1) {
        if (option == 'r')
            rounds = number(optarg, 1);
        else if (!job_option(option))
            usage("[-r ROUNDS]");
    }
    meet(1, 0, 1, one);
    segment = job.extra_shm = get_segment(job.key + 1, sizeof *shared);
    barrier();
    if (job.rank == 0 && attached() != 0)
        fail("a new segment has nattch %lu", attached());
    barrier();
    shared = shmat(segment, NULL, 0);
    if (shared == (void *)-1)
        fail_errno("shmat");
    barrier();
    for (long turn = 0; turn < rounds * job.all; turn++) {
        if (turn % job.all == job.rank) {
            expect(0, "everybody attached");
            twice();
            child_that_exits();
            child_that_detaches();
            tree();
            child_that_execs();
            child_that_is_killed();
            command();
            job.meeting->word[0] += added;
            added = 0;
        }
        barrier();
    }
    if (shared->total != job.meeting->word[0])
        fail("%ld was added together, must be %ld", shared->total, job.meeting->word[0]);
    for (long i = 0, sum = 0; i < WORDS; i++) {
        sum += shared->word[i];
        if (i == WORDS - 1 && sum != shared->total)
            fail("the words together are %ld, must be %ld", sum, shared->total);
    }
    barrier();
    if (shmdt(shared) < 0)
        fail_errno("shmdt");
    barrier();
    if (job.rank == 0) {
        if (attached() != 0)
            fail("all have detached, and nattch is %lu", attached());
        printf("forker: %d processes with their children, %ld round(s), nattch right at each step: ok\n", job.all,
               rounds);
    }
    return part();
}
