/*
 * conformance.c - what System V shared memory, semaphores and message queues do on Linux, errno for
 * errno; the sections are in the other files of this directory.
 *
 * Prints a line for each check that fails and a count at the end. On several sites: as many processes
 * as sites, -p says how many; see conformance.h.
 */
#include "conformance.h"

#include <grp.h>
#include <setjmp.h>
#include <sys/mman.h>

enum { MAX_AGENTS = 4, MAX_MADE = 1024, SECTION_SECONDS = 25, HELPER_SECONDS = 10, MAX_HELPERS = 64 };
enum { START = 1, PEEK, FINISH, SIGNAL, CLEAR, QUIT }; /* requests to an agent */

/* An agent's mailbox in the meeting page. */
struct request {
    long what, body, a, b, c, pid, reply;
};

/* What the sections' processes and the driver share: plain memory of one machine. */
static struct results {
    int checks, failures, skipped, made;
    struct {
        char kind;
        int id;
    } object[MAX_MADE];
} *results;

static const char *section_name = "";
static const char *only;
static const char *left_out[8]; /* -x: sections of such names are not run */
static int left_out_count;
static int agents, next_agent;

static struct request *mailbox(int agent)
{
    _Static_assert(MAX_AGENTS * sizeof(struct request) <= sizeof job.meeting->word, "mailboxes fit");
    return (struct request *)job.meeting->word + agent;
}

static int asked(int agent)
{
    return SEM_OWN + 2 * agent;
}

static int answered(int agent)
{
    return SEM_OWN + 2 * agent + 1;
}

void report(bool holds, const char *file, int line, const char *format, ...)
{
    char text[512];
    va_list list;

    results->checks++;
    if (holds)
        return;
    results->failures++;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    file = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    printf("conformance: %s: %s (%s:%d)\n", section_name, text, file, line);
    fflush(stdout);
}

void skip(const char *why)
{
    results->skipped++;
    printf("conformance: %s: skipped: %s\n", section_name, why);
}

/* Helpers. */

static void prepare_helper(void)
{
    catch_ends(SIG_DFL);
    alarm(SECTION_SECONDS);
}

static pid_t fork_body(body *what, long a, long b, long c)
{
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        prepare_helper();
        _exit((int)(what(a, b, c) & 0xff));
    }
    return child;
}

static long ask(int agent, struct request request)
{
    *mailbox(agent) = request;
    sem_one(job.sem, asked(agent), 1, 0);
    sem_one(job.sem, answered(agent), -1, 0);
    return mailbox(agent)->reply;
}

/* The same executable everywhere, but not at the same address. */
static long body_number(body *what)
{
    return (long)what - (long)report;
}

struct helper start_here(body *what, long a, long b, long c)
{
    return (struct helper){-1, fork_body(what, a, b, c)};
}

struct helper start(body *what, long a, long b, long c)
{
    struct helper helper = {-1, 0};

    helper.agent = next_agent++ % agents;
    helper.pid = (pid_t)ask(helper.agent, (struct request){START, body_number(what), a, b, c, 0, 0});
    return helper;
}

static int wait_for(pid_t pid)
{
    double until = now_s() + HELPER_SECONDS;
    int status;

    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);

        if (ended == pid)
            return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
        if (ended < 0)
            return HUNG - 1;
        if (now_s() > until) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return HUNG;
        }
        sleep_ms(1);
    }
}

static bool is_running(pid_t pid)
{
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

int finish(struct helper helper)
{
    if (helper.agent < 0)
        return wait_for(helper.pid);
    return (int)ask(helper.agent, (struct request){FINISH, 0, 0, 0, 0, helper.pid, 0});
}

bool running(struct helper helper)
{
    if (helper.agent < 0)
        return is_running(helper.pid);
    return ask(helper.agent, (struct request){PEEK, 0, 0, 0, 0, helper.pid, 0});
}

void send_signal(struct helper helper, int signal)
{
    if (helper.agent < 0)
        kill(helper.pid, signal);
    else
        ask(helper.agent, (struct request){SIGNAL, 0, signal, 0, 0, helper.pid, 0});
}

int run_other(body *what, long a, long b, long c)
{
    return finish(start(what, a, b, c));
}

int run_here(body *what, long a, long b, long c)
{
    return finish(start_here(what, a, b, c));
}

/* An agent's helpers; its process may have other children, rank 0 among them. */
static pid_t helpers[MAX_HELPERS];

static void remember(pid_t helper)
{
    for (int i = 0; i < MAX_HELPERS; i++)
        if (helpers[i] == 0) {
            helpers[i] = helper;
            return;
        }
}

static void forget(pid_t helper)
{
    for (int i = 0; i < MAX_HELPERS; i++)
        if (helpers[i] == helper)
            helpers[i] = 0;
}

/* Ends the helpers that a section has left. */
static void clear_helpers(void)
{
    for (int i = 0; i < MAX_HELPERS; i++) {
        if (helpers[i] <= 0)
            continue;
        kill(helpers[i], SIGKILL);
        waitpid(helpers[i], NULL, 0);
        helpers[i] = 0;
    }
}

static void serve(int agent)
{
    for (;;) {
        struct request *request = mailbox(agent);

        sem_one(job.sem, asked(agent), -1, 0);
        switch (request->what) {
        case START:
            request->reply =
                fork_body((body *)((long)report + request->body), request->a, request->b, request->c);
            remember((pid_t)request->reply);
            break;
        case PEEK: request->reply = is_running((pid_t)request->pid); break;
        case FINISH:
            request->reply = wait_for((pid_t)request->pid);
            forget((pid_t)request->pid);
            break;
        case SIGNAL: request->reply = kill((pid_t)request->pid, (int)request->a); break;
        case CLEAR: clear_helpers(); break;
        default: break;
        }
        if (request->what == QUIT)
            return;
        sem_one(job.sem, answered(agent), 1, 0);
    }
}

/* Objects. */

key_t key(int n)
{
    return job.key + 0x10 + n;
}

static int keep(char kind, int id)
{
    if (id >= 0 && results->made < MAX_MADE) {
        results->object[results->made].kind = kind;
        results->object[results->made++].id = id;
    }
    return id;
}

static int made(char kind, int id, const char *call)
{
    if (id < 0) {
        report(false, __FILE__, __LINE__, "%s: %s: the section ends here", call, strerror(errno));
        _exit(0);
    }
    return keep(kind, id);
}

int keep_shm(int id)
{
    return keep('m', id);
}

int keep_sem(int id)
{
    return keep('s', id);
}

int keep_msg(int id)
{
    return keep('q', id);
}

int new_shm(key_t key, size_t bytes, int flags)
{
    return made('m', shmget(key, bytes, flags | IPC_CREAT | IPC_EXCL), "shmget");
}

int new_sem(key_t key, int count, int flags)
{
    return made('s', semget(key, count, flags | IPC_CREAT | IPC_EXCL), "semget");
}

int new_msg(key_t key, int flags)
{
    return made('q', msgget(key, flags | IPC_CREAT | IPC_EXCL), "msgget");
}

/* Identifiers can be used again by others: only what is still under a key of ours, or private. */
static void remove_made(void)
{
    for (int i = 0; i < results->made; i++) {
        int id = results->object[i].id;

        switch (results->object[i].kind) {
        case 'm': shmctl(id, IPC_RMID, NULL); break;
        case 's': semctl(id, 0, IPC_RMID); break;
        default: msgctl(id, IPC_RMID, NULL); break;
        }
    }
    results->made = 0;
}

void *attach(int shm, int flags)
{
    void *at = shmat(shm, NULL, flags);

    if (at == (void *)-1) {
        report(false, __FILE__, __LINE__, "shmat: %s: the section ends here", strerror(errno));
        _exit(0);
    }
    return at;
}

static sigjmp_buf escape;

static void on_fault(int signal)
{
    siglongjmp(escape, signal);
}

static int signal_of(const volatile char *at, volatile char *to)
{
    struct sigaction act = {.sa_handler = on_fault}, segv, bus;
    int signal;

    sigaction(SIGSEGV, &act, &segv);
    sigaction(SIGBUS, &act, &bus);
    signal = sigsetjmp(escape, 1);
    if (signal == 0) {
        if (to != NULL)
            *to = *to;
        else
            (void)*at;
    }
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    return signal;
}

int signal_of_read(const volatile char *at)
{
    return signal_of(at, NULL);
}

int signal_of_write(volatile char *at)
{
    return signal_of(NULL, at);
}

bool become_nobody(void)
{
    return geteuid() == 0 && setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0;
}

bool await_handler(struct helper helper, int signal)
{
    double until = now_s() + 5;
    unsigned long long caught = 0;

    while (!(caught >> (signal - 1) & 1)) {
        char name[64], line[256];
        FILE *status;

        if (now_s() > until)
            return false;
        snprintf(name, sizeof name, "/proc/%d/status", (int)helper.pid);
        status = fopen(name, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            sscanf(line, "SigCgt: %llx", &caught);
        if (status != NULL)
            fclose(status);
        sleep_ms(1);
    }
    return true;
}

void settle(void)
{
    sleep_ms(100);
}

static bool await_count(int set, int number, int count, int command)
{
    double until = now_s() + 5;

    while (semctl(set, number, command) != count) {
        if (now_s() > until)
            return false;
        sleep_ms(1);
    }
    return true;
}

bool await_ncnt(int set, int number, int count)
{
    return await_count(set, number, count, GETNCNT);
}

bool await_zcnt(int set, int number, int count)
{
    return await_count(set, number, count, GETZCNT);
}

int sem_value(int set, int number)
{
    return semctl(set, number, GETVAL);
}

int set_value(int set, int number, int value)
{
    return semctl(set, number, SETVAL, (union semun){.val = value});
}

int op(int set, int number, int by, int flags)
{
    struct sembuf one = {(unsigned short)number, (short)by, (short)flags};

    return semop(set, &one, 1);
}

void section(const char *name, void (*run)(void))
{
    double until = now_s() + SECTION_SECONDS;
    int status;
    pid_t child;

    for (int i = 0; i < left_out_count; i++)
        if (strstr(name, left_out[i]) != NULL)
            return;
    if (only != NULL && strstr(name, only) == NULL)
        return;
    section_name = name;
    for (int i = 0; i < agents; i++)
        set_value(job.sem, answered(i), 0);
    fflush(stdout);
    child = fork();
    if (child < 0)
        fail_errno("fork");
    if (child == 0) {
        memset(job.children, 0, sizeof job.children);
        prepare_helper();
        run();
        fflush(stdout);
        _exit(0);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (now_s() > until)
            kill(child, SIGKILL);
        sleep_ms(1);
    }
    if (WIFSIGNALED(status))
        report(false, __FILE__, __LINE__, now_s() > until ? "hangs, killed by signal %d" : "ends by signal %d",
               WTERMSIG(status));
    for (int i = 0; i < agents; i++)
        ask(i, (struct request){.what = CLEAR});
    remove_made();
}

int main(int argc, char **argv)
{
    static const unsigned short zeros[2 * MAX_AGENTS];
    int option, result = 0;

    job_name(argv[0]);
    job.seconds = 300;
    while ((option = getopt(argc, argv, JOB_OPTIONS "o:x:")) != -1) {
        if (option == 'o')
            only = optarg;
        else if (option == 'x' && left_out_count < 8)
            left_out[left_out_count++] = optarg;
        else if (!job_option(option))
            usage("[-o PART-OF-A-SECTION'S-NAME] [-x PART-OF-ONE-TO-LEAVE-OUT]...");
    }
    meet(2, 0, 2 * MAX_AGENTS, zeros);
    agents = job.all - 1 < MAX_AGENTS ? job.all - 1 : MAX_AGENTS;
    if (job.rank > 0) {
        if (job.rank <= agents)
            serve(job.rank - 1);
    } else {
        results = mmap(NULL, sizeof *results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (results == MAP_FAILED)
            fail_errno("mmap");
        shm_sections();
        sem_sections();
        msg_sections();
        memory_sections();
        permission_sections();
        race_sections();
        process_sections();
        mapping_sections();
        for (int i = 0; i < agents; i++) {
            *mailbox(i) = (struct request){.what = QUIT};
            sem_one(job.sem, asked(i), 1, 0);
        }
        result = results->failures != 0;
        printf("conformance: %d checks, %d failed, %d sections skipped, %d agents: %s\n", results->checks,
               results->failures, results->skipped, agents, result ? "FAILED" : "ok");
    }
    return part() | result;
}
