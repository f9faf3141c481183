/* msg.c - message queues: msgget, msgsnd, msgrcv, msgctl, types, limits, and who waits and is woken. */
#include "conformance.h"

enum { TEXT = 64 };

struct letter {
    long type;
    char text[TEXT];
};

static int send(int queue, long type, const char *text, int flags)
{
    struct letter letter = {.type = type};

    snprintf(letter.text, TEXT, "%s", text);
    return msgsnd(queue, &letter, strlen(text) + 1, flags);
}

static int send_bytes(int queue, long type, size_t length, int flags)
{
    static struct {
        long type;
        char text[70000];
    } letter;

    letter.type = type;
    return msgsnd(queue, &letter, length, flags);
}

/* Whether this is the text that is received for this type. */
static bool comes(int queue, long type, int flags, long of_type, const char *text)
{
    struct letter letter = {0};
    ssize_t got = msgrcv(queue, &letter, TEXT, type, flags | IPC_NOWAIT);

    return got == (ssize_t)strlen(text) + 1 && letter.type == of_type && strcmp(letter.text, text) == 0;
}

static ssize_t receive(int queue, size_t room, long type, int flags)
{
    struct letter letter;

    return msgrcv(queue, &letter, room, type, flags);
}

static struct msqid_ds about(int queue)
{
    struct msqid_ds stat = {0};

    CHECK_OK(msgctl(queue, IPC_STAT, &stat));
    return stat;
}

/* Allows so many bytes; false where the kernel does not. */
static bool limit(int queue, unsigned long bytes)
{
    struct msqid_ds stat;

    if (msgctl(queue, IPC_STAT, &stat) < 0)
        return false;
    stat.msg_qbytes = bytes;
    return msgctl(queue, IPC_SET, &stat) == 0;
}

/* Helpers: the result is errno; a receiver's is the first letter of the text. */

static long sends(long queue, long type, long letter)
{
    char text[2] = {(char)letter, 0};

    return send((int)queue, type, text, 0) == 0 ? 0 : errno;
}

static long receives(long queue, long type, long flags)
{
    struct letter letter;

    return msgrcv((int)queue, &letter, TEXT, type, (int)flags) < 0 ? errno : letter.text[0];
}

static long receives_little(long queue, long room, long flags)
{
    return receive((int)queue, (size_t)room, 0, (int)flags) < 0 ? errno : 0;
}

static void nothing(int signal)
{
    (void)signal;
}

static void handle(void)
{
    struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};

    sigaction(SIGUSR1, &act, NULL);
}

static long receives_with_handler(long queue, long type, long flags)
{
    handle();
    return receives(queue, type, flags);
}

static long sends_with_handler(long queue, long type, long letter)
{
    handle();
    return sends(queue, type, letter);
}

static void get(void)
{
    int queue, other;

    CHECK_ERR(msgget(key(0), 0), ENOENT);
    CHECK_ERR(msgget(key(0), 0600), ENOENT);
    CHECK_ERR(msgget(key(0), IPC_EXCL), ENOENT);
    queue = new_msg(key(0), 0600);
    CHECK_IS(msgget(key(0), 0), queue);
    CHECK_IS(msgget(key(0), IPC_CREAT | 0600), queue);
    CHECK_ERR(msgget(key(0), IPC_CREAT | IPC_EXCL | 0600), EEXIST);
    other = new_msg(IPC_PRIVATE, 0600);
    CHECK(other != queue);
    CHECK(new_msg(IPC_PRIVATE, 0600) != other);
    CHECK_IS(about(other).msg_perm.__key, 0);
    CHECK_OK(msgctl(queue, IPC_RMID, NULL));
    CHECK_ERR(msgget(key(0), 0), ENOENT);
    CHECK_GONE(msgctl(queue, IPC_RMID, NULL));
    CHECK_GONE(send(queue, 1, "a", 0));
    CHECK_GONE(receive(queue, TEXT, 0, IPC_NOWAIT));
    CHECK(new_msg(key(0), 0600) != queue);
    CHECK_IS(run_other(sends, queue, 1, 'a'), EINVAL);
}

static void stat(void)
{
    time_t before = time(NULL);
    int queue = new_msg(key(0), 0640);
    struct msqid_ds stat = about(queue);
    struct helper helper;

    CHECK_IS(stat.msg_perm.mode, 0640);
    CHECK_IS(stat.msg_perm.__key, key(0));
    CHECK_IS(stat.msg_perm.uid, geteuid());
    CHECK_IS(stat.msg_perm.cgid, getegid());
    CHECK_IS(stat.msg_qnum, 0);
    CHECK_IS(stat.msg_cbytes, 0);
    CHECK(stat.msg_qbytes > 0);
    CHECK_IS(stat.msg_lspid, 0);
    CHECK_IS(stat.msg_lrpid, 0);
    CHECK_IS(stat.msg_stime, 0);
    CHECK_IS(stat.msg_rtime, 0);
    CHECK(stat.msg_ctime >= before - 1 && stat.msg_ctime <= time(NULL) + 1);
    CHECK_OK(send(queue, 1, "abc", 0));
    stat = about(queue);
    CHECK_IS(stat.msg_qnum, 1);
    CHECK_IS(stat.msg_cbytes, 4);
    CHECK_IS(stat.msg_lspid, getpid());
    CHECK(stat.msg_stime >= before - 1 && stat.msg_stime <= time(NULL) + 1);
    CHECK_IS(stat.msg_rtime, 0);
    CHECK(comes(queue, 0, 0, 1, "abc"));
    stat = about(queue);
    CHECK_IS(stat.msg_qnum, 0);
    CHECK_IS(stat.msg_cbytes, 0);
    CHECK_IS(stat.msg_lrpid, getpid());
    CHECK(stat.msg_rtime >= before - 1 && stat.msg_rtime <= time(NULL) + 1);
    helper = start(sends, queue, 3, 'x');
    CHECK_IS(finish(helper), 0);
    CHECK_IS(about(queue).msg_lspid, helper.pid);
    helper = start(receives, queue, 3, 0);
    CHECK_IS(finish(helper), 'x');
    CHECK_IS(about(queue).msg_lrpid, helper.pid);
    stat = about(queue);
    stat.msg_perm.mode = 0604;
    stat.msg_qbytes = 1000;
    CHECK_OK(msgctl(queue, IPC_SET, &stat));
    CHECK_IS(about(queue).msg_perm.mode, 0604);
    CHECK_IS(about(queue).msg_qbytes, 1000);
    CHECK_ERR(msgctl(queue, IPC_STAT, (struct msqid_ds *)8), EFAULT);
    CHECK_ERR(msgctl(queue, IPC_SET, (struct msqid_ds *)8), EFAULT);
    CHECK_ERR(msgctl(-1, IPC_STAT, &stat), EINVAL);
    CHECK_ERR(msgctl(INT_MAX, IPC_STAT, &stat), EINVAL);
    CHECK_ERR(msgctl(queue, 12345, &stat), EINVAL);
}

static void information(void)
{
    int queue = new_msg(key(0), 0600), highest, found = 0;
    struct msqid_ds stat;
    struct msginfo info;

    CHECK_OK(send(queue, 1, "abc", 0));
    highest = msgctl(0, IPC_INFO, (struct msqid_ds *)&info);
    CHECK(highest >= 0);
    CHECK(info.msgmax >= 1024 && info.msgmnb >= 1024 && info.msgmni >= 1);
    highest = msgctl(0, MSG_INFO, (struct msqid_ds *)&info);
    CHECK(highest >= 0);
    CHECK(info.msgpool >= 1); /* queues there are */
    CHECK(info.msgmap >= 1);  /* messages in them */
    CHECK(info.msgtql >= 4);  /* bytes of those */
    for (int i = 0; i <= highest; i++)
        if (msgctl(i, MSG_STAT, &stat) == queue)
            found += stat.msg_perm.__key == key(0) && stat.msg_qnum == 1;
    CHECK_IS(found, 1);
}

static void errors(void)
{
    int queue = new_msg(key(0), 0600);

    CHECK_ERR(send(queue, 0, "a", 0), EINVAL);
    CHECK_ERR(send(queue, -1, "a", 0), EINVAL);
    CHECK_ERR(send(-1, 1, "a", 0), EINVAL);
    CHECK_ERR(send(INT_MAX, 1, "a", 0), EINVAL);
    CHECK_ERR(send_bytes(queue, 1, (size_t)-1, 0), EINVAL);
    CHECK_ERR(send_bytes(queue, 1, 65537, IPC_NOWAIT), EINVAL);
    CHECK_ERR(msgsnd(queue, (void *)8, 1, 0), EFAULT);
    CHECK_ERR(receive(queue, TEXT, 0, IPC_NOWAIT), ENOMSG);
    CHECK_ERR(receive(queue, TEXT, 1, IPC_NOWAIT), ENOMSG);
    CHECK_ERR(receive(queue, TEXT, -1, IPC_NOWAIT), ENOMSG);
    CHECK_ERR(receive(queue, (size_t)-1, 0, IPC_NOWAIT), EINVAL);
    CHECK_ERR(receive(-1, TEXT, 0, IPC_NOWAIT), EINVAL);
    CHECK_ERR(receive(INT_MAX, TEXT, 0, IPC_NOWAIT), EINVAL);
    CHECK_IS(about(queue).msg_qnum, 0);
    CHECK_OK(send_bytes(queue, 1, 0, 0)); /* nothing but a type */
    CHECK_IS(about(queue).msg_qnum, 1);
    CHECK_IS(about(queue).msg_cbytes, 0);
    CHECK_IS(receive(queue, 0, 0, 0), 0);
    /* Too long: it stays; MSG_NOERROR: the rest is lost. */
    CHECK_OK(send(queue, 7, "abcdefg", 0));
    CHECK_ERR(receive(queue, 4, 0, 0), E2BIG);
    CHECK_ERR(receive(queue, 7, 0, IPC_NOWAIT), E2BIG);
    CHECK_ERR(receive(queue, 0, 7, 0), E2BIG);
    CHECK_IS(about(queue).msg_qnum, 1);
    {
        struct letter letter = {.text = "........"};

        CHECK_IS(msgrcv(queue, &letter, 4, 0, MSG_NOERROR), 4);
        CHECK_IS(letter.type, 7);
        CHECK(strcmp(letter.text, "abcd....") == 0);
    }
    CHECK_IS(about(queue).msg_qnum, 0);
    CHECK_IS(about(queue).msg_cbytes, 0);
    CHECK_OK(send(queue, 1, "abcdefg", 0));
    CHECK_IS(receive(queue, 8, 0, 0), 8); /* fits exactly */
    CHECK_OK(send(queue, LONG_MAX, "most", 0));
    CHECK(comes(queue, LONG_MAX, 0, LONG_MAX, "most"));
}

static void types(void)
{
    int queue = new_msg(key(0), 0600);

    CHECK_OK(send(queue, 5, "five", 0));
    CHECK_OK(send(queue, 3, "three", 0));
    CHECK_OK(send(queue, 9, "nine", 0));
    CHECK_OK(send(queue, 3, "three again", 0));
    CHECK_OK(send(queue, 4, "four", 0));
    CHECK_ERR(receive(queue, TEXT, 6, IPC_NOWAIT), ENOMSG);
    CHECK_ERR(receive(queue, TEXT, -2, IPC_NOWAIT), ENOMSG);
    CHECK(comes(queue, 4, 0, 4, "four"));
    CHECK_OK(send(queue, 4, "four", 0));
    CHECK(comes(queue, 0, 0, 5, "five")); /* 0: the first */
    CHECK(comes(queue, -4, 0, 3, "three")); /* < 0: the lowest, and of those the first */
    CHECK(comes(queue, -4, 0, 3, "three again"));
    CHECK(comes(queue, -4, 0, 4, "four"));
    CHECK_ERR(receive(queue, TEXT, -4, IPC_NOWAIT), ENOMSG);
    CHECK(comes(queue, -9, 0, 9, "nine"));
    CHECK_OK(send(queue, 1, "one", 0));
    CHECK_OK(send(queue, 2, "two", 0));
    CHECK_OK(send(queue, 1, "one again", 0));
    CHECK_ERR(receive(queue, TEXT, 3, IPC_NOWAIT), ENOMSG);
    CHECK(comes(queue, 1, MSG_EXCEPT, 2, "two"));
    CHECK_ERR(receive(queue, TEXT, 1, IPC_NOWAIT | MSG_EXCEPT), ENOMSG);
    CHECK(comes(queue, 7, MSG_EXCEPT, 1, "one"));
    CHECK_OK(send(queue, 2, "two", 0));
    CHECK(comes(queue, 0, MSG_EXCEPT, 1, "one again")); /* no type: as without */
    CHECK(comes(queue, LONG_MIN, 0, 2, "two"));
    CHECK_OK(send(queue, 8, "eight", 0));
    CHECK_OK(send(queue, 7, "seven", 0));
    CHECK(comes(queue, -LONG_MAX, 0, 7, "seven"));
    CHECK(comes(queue, -8, 0, 8, "eight"));
}

static long checks_order(long queue, long count, long of_type)
{
    struct {
        long type;
        int number;
    } letter;

    for (int i = 0; i < count; i++)
        if (msgrcv((int)queue, &letter, sizeof letter.number, of_type, 0) != sizeof letter.number || letter.number != i)
            return 1;
    return 0;
}

static void order(void)
{
    enum { COUNT = 300 };
    int queue = new_msg(key(0), 0600);
    struct helper helper[2] = {start(checks_order, queue, COUNT, 1), start_here(checks_order, queue, COUNT, 2)};
    struct {
        long type;
        int number;
    } letter;

    for (int i = 0; i < COUNT; i++)
        for (letter.type = 1; letter.type <= 2; letter.type++) {
            letter.number = i;
            if (msgsnd(queue, &letter, sizeof letter.number, 0) < 0)
                CHECK_OK(-1);
        }
    CHECK_IS(finish(helper[0]), 0);
    CHECK_IS(finish(helper[1]), 0);
    CHECK_IS(about(queue).msg_qnum, 0);
}

static long returns_changed(long queue, long length, long unused)
{
    struct {
        long type;
        unsigned char text[8192];
    } letter;

    (void)unused;
    if (msgrcv((int)queue, &letter, sizeof letter.text, 1, 0) != length)
        return 1;
    for (long i = 0; i < length; i++)
        letter.text[i] ^= 0x55;
    letter.type = 2;
    return msgsnd((int)queue, &letter, (size_t)length, 0) == 0 ? 0 : errno;
}

static void large(void)
{
    static const long lengths[] = {1, 47, 48, 49, 1000, 4047, 4048, 4049, 4096, 8191, 8192};
    int queue = new_msg(key(0), 0600);
    struct {
        long type;
        unsigned char text[8192];
    } letter;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        long length = lengths[i], wrong = 0;
        struct helper helper = start(returns_changed, queue, length, 0);

        letter.type = 1;
        for (long at = 0; at < length; at++)
            letter.text[at] = (unsigned char)scramble((uint64_t)at);
        CHECK_OK(msgsnd(queue, &letter, (size_t)length, 0));
        memset(letter.text, 0, sizeof letter.text);
        CHECK_IS(msgrcv(queue, &letter, sizeof letter.text, 2, 0), length);
        for (long at = 0; at < length; at++)
            wrong += letter.text[at] != ((unsigned char)scramble((uint64_t)at) ^ 0x55);
        CHECK_IS(wrong, 0);
        CHECK_IS(finish(helper), 0);
    }
}

static void full(void)
{
    int queue = new_msg(key(0), 0600);
    struct helper a, b;

    CHECK(limit(queue, 100));
    CHECK_OK(send_bytes(queue, 1, 60, 0));
    CHECK_OK(send_bytes(queue, 1, 40, IPC_NOWAIT)); /* to the last byte */
    CHECK_ERR(send_bytes(queue, 1, 1, IPC_NOWAIT), EAGAIN);
    CHECK_OK(send_bytes(queue, 1, 0, IPC_NOWAIT)); /* adds none */
    CHECK_IS(receive(queue, TEXT, 0, 0), 60);
    CHECK_ERR(send_bytes(queue, 1, 61, IPC_NOWAIT), EAGAIN);
    CHECK_OK(send_bytes(queue, 1, 60, IPC_NOWAIT));
    /* A sender waits until there is room. */
    a = start(sends, queue, 2, 'a');
    settle();
    CHECK(running(a));
    CHECK_IS(about(queue).msg_qnum, 3);
    CHECK_IS(receive(queue, TEXT, 0, 0), 40);
    CHECK_IS(finish(a), 0);
    CHECK(comes(queue, 2, 0, 2, "a"));
    CHECK_IS(about(queue).msg_lspid, a.pid);
    while (receive(queue, TEXT, 0, IPC_NOWAIT) >= 0)
        ;
    CHECK_IS(about(queue).msg_cbytes, 0);
    /* Or until the limit is raised. */
    CHECK_OK(send_bytes(queue, 1, 100, 0));
    a = start(sends, queue, 2, 'b');
    settle();
    CHECK(running(a));
    CHECK(limit(queue, 200));
    CHECK_IS(finish(a), 0);
    CHECK(comes(queue, 2, 0, 2, "b"));
    /* As many messages as bytes are allowed. */
    CHECK_IS(receive(queue, TEXT, 0, MSG_NOERROR), TEXT);
    CHECK(limit(queue, 16));
    for (int i = 0; i < 16; i++)
        CHECK_OK(send_bytes(queue, 1, 0, IPC_NOWAIT));
    CHECK_ERR(send_bytes(queue, 1, 0, IPC_NOWAIT), EAGAIN);
    CHECK_IS(receive(queue, TEXT, 0, 0), 0);
    CHECK_OK(send_bytes(queue, 1, 0, IPC_NOWAIT));
    /* A signal, removal, for those who wait to send. */
    a = start(sends_with_handler, queue, 1, 'c');
    CHECK(await_handler(a, SIGUSR1));
    settle();
    CHECK(running(a));
    send_signal(a, SIGUSR1);
    CHECK_IS(finish(a), EINTR);
    CHECK_IS(about(queue).msg_qnum, 16);
    a = start(sends, queue, 1, 'd');
    b = start_here(sends, queue, 1, 'e');
    settle();
    CHECK(running(a) && running(b));
    CHECK_OK(msgctl(queue, IPC_RMID, NULL));
    CHECK_IS(finish(a), EIDRM);
    CHECK_IS(finish(b), EIDRM);
}

static void waiting(void)
{
    int queue = new_msg(key(0), 0600);
    struct helper a, b;

    a = start(receives, queue, 0, 0);
    settle();
    CHECK(running(a));
    CHECK_OK(send(queue, 4, "x", 0));
    CHECK_IS(finish(a), 'x');
    CHECK_IS(about(queue).msg_qnum, 0);
    CHECK_IS(about(queue).msg_lrpid, a.pid);
    /* Each gets what it waits for. */
    a = start(receives, queue, 5, 0);
    b = start_here(receives, queue, -3, 0);
    settle();
    CHECK_OK(send(queue, 7, "s", 0));
    settle();
    CHECK(running(a) && running(b));
    CHECK_OK(send(queue, 5, "f", 0));
    CHECK_IS(finish(a), 'f');
    CHECK(running(b));
    CHECK_OK(send(queue, 2, "t", 0));
    CHECK_IS(finish(b), 't');
    CHECK_IS(about(queue).msg_qnum, 1);
    a = start(receives, queue, 7, MSG_EXCEPT);
    settle();
    CHECK(running(a));
    CHECK_OK(send(queue, 6, "u", 0));
    CHECK_IS(finish(a), 'u');
    CHECK(comes(queue, 0, 0, 7, "s"));
    /* The first of two who wait for the same. */
    a = start(receives, queue, 1, 0);
    settle();
    b = start_here(receives, queue, 1, 0);
    settle();
    CHECK_OK(send(queue, 1, "1", 0));
    CHECK_IS(finish(a), '1');
    CHECK(running(b));
    CHECK_OK(send(queue, 1, "2", 0));
    CHECK_IS(finish(b), '2');
    /* Too long for one who waits: it is told so, the message stays. */
    a = start(receives_little, queue, 3, 0);
    settle();
    CHECK_OK(send(queue, 1, "long", 0));
    CHECK_IS(finish(a), E2BIG);
    CHECK(comes(queue, 0, 0, 1, "long"));
    a = start(receives_little, queue, 3, MSG_NOERROR);
    settle();
    CHECK_OK(send(queue, 1, "long", 0));
    CHECK_IS(finish(a), 0);
    CHECK_IS(about(queue).msg_qnum, 0);
    /* A signal, death, removal. */
    a = start(receives_with_handler, queue, 0, 0);
    CHECK(await_handler(a, SIGUSR1));
    settle();
    CHECK(running(a));
    send_signal(a, SIGUSR1);
    CHECK_IS(finish(a), EINTR); /* in spite of SA_RESTART */
    a = start(receives, queue, 0, 0);
    settle();
    send_signal(a, SIGKILL);
    CHECK_IS(finish(a), -SIGKILL);
    CHECK_OK(send(queue, 1, "kept", 0)); /* not for the dead */
    CHECK(comes(queue, 0, 0, 1, "kept"));
    a = start(receives, queue, 0, 0);
    b = start_here(receives, queue, 5, 0);
    settle();
    CHECK(running(a) && running(b));
    CHECK_OK(msgctl(queue, IPC_RMID, NULL));
    CHECK_IS(finish(a), EIDRM);
    CHECK_IS(finish(b), EIDRM);
}

static void many_queues(void)
{
    enum { COUNT = 100 };
    int queue[COUNT];
    long wrong = 0;

    for (int i = 0; i < COUNT; i++) {
        queue[i] = new_msg(key(i), 0600);
        wrong += send(queue[i], i + 1, "here", 0) != 0;
    }
    CHECK_IS(run_other(receives, queue[50], 51, 0), 'h');
    CHECK_OK(send(queue[50], 51, "here", 0));
    for (int i = 0; i < COUNT; i++)
        wrong += !comes(msgget(key(i), 0), 0, 0, i + 1, "here");
    for (int i = 0; i < COUNT; i++)
        wrong += msgctl(queue[i], IPC_RMID, NULL) != 0;
    CHECK_IS(wrong, 0);
}

void msg_sections(void)
{
    section("msgget", get);
    section("msgctl", stat);
    section("msgctl MSG_INFO", information);
    section("msgsnd msgrcv errors", errors);
    section("msgrcv types", types);
    section("msg order", order);
    section("msg lengths", large);
    section("msgsnd full", full);
    section("msgrcv waiting", waiting);
    section("100 queues", many_queues);
}
